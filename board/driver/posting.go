package driver

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Priority says which posting is taken first. The zero value is Normal, which is what a posting without one has.
type Priority int8

// The five priorities of TaskFlow; higher ones are taken first.
const (
	VeryLow  Priority = -2
	Low      Priority = -1
	Normal   Priority = 0
	High     Priority = 1
	VeryHigh Priority = 2
)

var priorities = [...]string{"VERY_LOW", "LOW", "NORMAL", "HIGH", "VERY_HIGH"}

// Valid reports whether p is one of the five.
func (p Priority) Valid() bool { return p >= VeryLow && p <= VeryHigh }

// String is the text in which the priority is stored, upper case.
func (p Priority) String() string {
	if !p.Valid() {
		return "Priority(" + strconv.Itoa(int(p)) + ")"
	}
	return priorities[p-VeryLow]
}

// ParsePriority reads the text of a priority, in any case. The error is an *InvalidError.
func ParsePriority(text string) (Priority, error) {
	for i, name := range priorities {
		if strings.EqualFold(text, name) {
			return Priority(i) + VeryLow, nil
		}
	}
	return 0, Invalid("priority", strconv.Quote(cut(text)), "must be one of "+strings.Join(priorities[:], ", "))
}

// MarshalText and UnmarshalText are String and ParsePriority.
func (p Priority) MarshalText() ([]byte, error) {
	if !p.Valid() {
		return nil, Invalid("priority", p.String(), "must be one of "+strings.Join(priorities[:], ", "))
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads what MarshalText wrote, in any case.
func (p *Priority) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePriority(string(text))
	return err
}

// State of a posting. It is stored nowhere: it follows from which records exist.
type State uint8

// States. The zero value is none of them.
const (
	Unclaimed State = iota + 1 // posted, owned by nobody
	Claimed                    // posted, and somebody works on it
	Complete                   // consumed, or never posted: boards do not remember
	Trashed                    // put aside as unfit; TaskFlow shows such a posting as COMPLETE
)

var states = [...]string{"", "UNCLAIMED", "CLAIMED", "COMPLETE", "TRASHED"}

// String is the state's name in TaskFlow.
func (s State) String() string {
	if int(s) >= len(states) || s == 0 {
		return "State(" + strconv.Itoa(int(s)) + ")"
	}
	return states[s]
}

// MarshalText is String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Book refers to a logbook of TaskFlow, whose content lives in a persistence backend that boards never see.
type Book struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// Posting is work that is posted: an immutable record. It is the same for whoever reads it, so none of its parts may be changed.
type Posting struct {
	UUID      string // identity: lower-case and dashed if Takt or TaskFlow made it
	Name      string
	Priority  Priority
	Details   map[string]any // see Value; nil and empty are the same
	Book      *Book          // nil = none
	CreatedOn time.Time      // UTC, by the clock of the server if Takt posted it; microseconds on Redis, milliseconds on ZooKeeper
	Sequence  int64          // rises with every posting, with gaps
	Extra     map[string]any // keys of the stored record that TaskFlow does not know

	// Ref is the name under which the board has it: the field of the hash, or the last part of the path. It is the UUID on Redis, unless a foreign writer chose otherwise.
	Ref string
}

// Set fills the field that key names in the stored record with a value in the types of Details, as leniently as TaskFlow reads it; keys that it does not know go to Extra. The last of two values of a key counts. CreatedOn, Sequence and
// Ref are the store's.
func (p *Posting) Set(key string, v any) error {
	text, isText := v.(string)
	switch key {
	case "uuid":
		switch {
		case Falsy(v):
			p.UUID = p.Ref // TaskFlow makes up another one each time it reads
		case !isText:
			return fmt.Errorf("a %T, want text", v)
		default:
			p.UUID = text
		}
	case "name":
		p.Name = Text(v)
	case "priority":
		if !isText {
			return fmt.Errorf("a %T, want text", v)
		}
		var err error
		p.Priority, err = ParsePriority(text)
		return err
	case "details":
		details, ok := v.(map[string]any)
		if !ok && !Falsy(v) {
			return fmt.Errorf("a %T, want a map", v)
		}
		p.Details = nil
		if len(details) > 0 {
			p.Details = details
		}
	case "book":
		p.Book = nil
		if Falsy(v) {
			return nil
		}
		book, ok := v.(map[string]any)
		name, okName := book["name"].(string)
		uuid, okUUID := book["uuid"].(string)
		if !ok || !okName || !okUUID {
			return errors.New("want a map with the texts name and uuid")
		}
		p.Book = &Book{Name: name, UUID: uuid}
	default:
		if p.Extra == nil {
			p.Extra = map[string]any{}
		}
		p.Extra[key] = v
	}
	return nil
}

// Text is a value that should be text, of whatever type, as text; "" of nil.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}

// Compare orders postings as they are taken: by priority, then by age, then by Ref.
func Compare(a, b *Posting) int {
	switch {
	case a.Priority != b.Priority:
		return int(b.Priority) - int(a.Priority)
	case a.Sequence != b.Sequence:
		if a.Sequence < b.Sequence {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Ref, b.Ref)
}

// Row is a posting with what goes with it at the moment of reading.
type Row struct {
	*Posting
	State        State
	Owner        string        // text that names who claimed it; "" = nobody
	ExpiresIn    time.Duration // until the claim ends unless it is extended; 0 = it does not expire, or there is none
	LastModified time.Time     // when it was claimed or abandoned last, or posted; zero in listings that were not asked for it
}

// Malformed is a record that is no posting. It is reported and skipped, never deleted.
type Malformed struct {
	Ref string
	Err error
}

func (m Malformed) Error() string {
	return fmt.Sprintf("board: posting %s cannot be read: %v", strconv.Quote(cut(m.Ref)), m.Err)
}

// Unwrap is Err.
func (m Malformed) Unwrap() error { return m.Err }

// Entity is a registered participant of a board, such as a conductor.
type Entity struct {
	Kind     string         `json:"kind"` // "conductor" is the only one that TaskFlow knows
	Name     string         `json:"name"` // unique within its kind; may hold no "/" on ZooKeeper
	Metadata map[string]any `json:"metadata"`
}

// ConductorKind is the kind of an Entity that TaskFlow knows.
const ConductorKind = "conductor"

func cut(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// Errors that callers act on. What is returned wraps them and says more; see also *InvalidError, *ClaimedError and *NotOwnerError.
var (
	// ErrNotFound: there is no such posting: it was consumed, trashed, or never posted.
	ErrNotFound = errors.New("no such posting")
	// ErrUnowned: nobody owns the posting, or its claim has expired.
	ErrUnowned = errors.New("nobody owns the posting")
	// ErrExists: another posting has this UUID or, on restoring, this name.
	ErrExists = errors.New("another posting has this identity")
	// ErrClaimLost: the claim ended without its owner: it expired, somebody took it away, or the session with the server was lost.
	ErrClaimLost = errors.New("the claim is lost")
	// ErrClosed: the board is closed.
	ErrClosed = errors.New("the board is closed")
	// ErrAway: the server could not be asked. The outcome of a write is unknown; repeating it is safe where the method says so.
	ErrAway = errors.New("the server cannot be asked")
	// ErrUnsupported: this kind of board cannot do that.
	ErrUnsupported = errors.New("not supported by this kind of board")
)

// InvalidError is a mistake in a call: Value of Field breaks Rule. Nothing was sent.
type InvalidError struct{ Field, Value, Rule string }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("board: %s %s: %s", e.Field, e.Value, e.Rule)
}

// Invalid makes an *InvalidError.
func Invalid(field, value, rule string) error { return &InvalidError{field, value, rule} }

// ClaimedError says that the posting has an owner, maybe the caller under the same name. Nothing was changed.
type ClaimedError struct{ Ref, Owner string }

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("board: posting %s is claimed by %s", e.Ref, strconv.Quote(cut(e.Owner)))
}

// NotOwnerError says that the posting has another owner than Who. Nothing was changed.
type NotOwnerError struct{ Ref, Owner, Who string }

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("board: posting %s is claimed by %s, not by %s", e.Ref, strconv.Quote(cut(e.Owner)), strconv.Quote(cut(e.Who)))
}
