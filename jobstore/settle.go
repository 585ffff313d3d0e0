package jobstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

//go:embed snapshot.lua
var snapshotLua string

//go:embed cursor.lua
var cursorLua string

var (
	snapshotScript = script.New("jobstore/snapshot", snapshotLua)
	cursorScript   = script.New("jobstore/cursor", cursorLua)
)

// Settlement is what the broker acknowledged in one scope.
type Settlement struct {
	Scope isa95.Scope
	Jobs  []SettledJob
	Index bool // take the next state index, too

	Epoch string // of the store from now on, if it has none, or if its seq is below Floor: then it lost something
	Floor int64  // a seq that somebody has seen: the next is not below, and above if it would have been (E-P4)
	Force bool   // take a new seq though nothing changed

	Last *ScopeIndex // the index taken before, to save the work on entries that are the same; nil = none
}

// SettledJob is one job order whose topics the broker acknowledged.
type SettledJob struct {
	Job       *RetainedJob // as read before it was published
	Published Published
	Shown     bool // the state index shows the difference to Job.Done
	Gone      bool // the topics are deleted: nothing is to be kept, unless the order was stored again meanwhile
}

// ScopeIndex is the state index to publish: Seq, and the job orders as they were when it was taken, in no order.
type ScopeIndex struct {
	Scope isa95.Scope
	Epoch string // of the store
	Seq   int64
	Jobs  []RetainedJob // without documents
	Err   error         // something else is stored where the scope's keys are

	at map[string]int // job order id -> place in Jobs
}

// Settle notes what was published and takes the state indexes asked for, in the order of the settlements that asked. One round
// trip, whatever the number. ErrLeaseLost: another process publishes, nothing was written. It may be repeated: a seq is taken
// only for what changed since the last.
func (s *Store) Settle(ctx context.Context, l *Lease, settlements ...Settlement) ([]ScopeIndex, error) {
	calls, err := s.notes(l, settlements, "")
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	var indexes []ScopeIndex
	for i, reply := range s.rdb.DoMulti(ctx, s.commands(calls)...) {
		index, err := s.settled(s.orEval(ctx, calls[i], reply), settlements[i])
		if err != nil {
			return nil, fmt.Errorf("jobstore: settle %s: %w", index.Scope, err)
		}
		if settlements[i].Index || index.Err != nil {
			indexes = append(indexes, index)
		}
	}
	return indexes, nil
}

func (s *Store) settlement(l *Lease, settled Settlement) (call, error) {
	scope := string(settled.Scope)
	c := call{
		script: snapshotScript,
		keys:   []string{l.Key, s.keys.PubIndex(scope), s.keys.PubDone(scope), s.keys.PubSeq(scope), s.keys.PubDirty(), s.keys.PubEpoch()},
		args:   []string{l.Token, scope, strconv.FormatInt(settled.Floor, 10), flag(settled.Force), flag(settled.Index), settled.Epoch},
	}
	for _, j := range settled.Jobs {
		done, gone := "", ""
		if j.Gone {
			gone = string(j.Job.raw)
		}
		if j.Published != (Published{}) && !j.Gone {
			value, err := json.Marshal(j.Published)
			if err != nil {
				return call{}, err
			}
			done = string(value)
		}
		c.args = append(c.args, string(j.Job.JobOrderID), done, flag(j.Shown), gone)
	}
	return c, nil
}

func (s *Store) settled(reply rueidis.RedisResult, settlement Settlement) (ScopeIndex, error) {
	index := ScopeIndex{Scope: settlement.Scope}
	parts, err := reply.ToArray()
	if err != nil {
		return index, err
	}
	word := ""
	if len(parts) > 0 {
		word, err = parts[0].ToString()
	}
	switch {
	case err != nil:
		return index, err
	case word == "lost":
		return index, ErrLeaseLost
	case word == "type" && len(parts) == 2:
		key, err := parts[1].ToString()
		index.Err = &DocumentError{Key: key, Err: errors.New("is not of the type or form that Takt keeps there")}
		return index, err
	case word == "ok" && len(parts) == 1:
		return index, nil
	case word != "ok" || len(parts) != 5:
		return index, fmt.Errorf("script replied %q with %d parts", word, len(parts))
	}
	if index.Seq, err = parts[1].AsInt64(); err != nil {
		return index, err
	}
	if index.Epoch, err = parts[2].ToString(); err != nil {
		return index, err
	}
	want, err := parts[3].AsStrSlice()
	if err != nil {
		return index, err
	}
	done, err := parts[4].AsStrMap()
	if err != nil {
		return index, err
	}
	key := s.keys.PubIndex(string(settlement.Scope))
	index.Jobs = make([]RetainedJob, len(want)/2)
	index.at = make(map[string]int, len(want)/2)
	for i := range index.Jobs {
		id, raw, rawDone := want[2*i], want[2*i+1], done[want[2*i]]
		index.at[id] = i
		if last := settlement.Last.Job(isa95.JobOrderID(id)); last != nil && string(last.raw) == raw && last.rawDone == rawDone {
			index.Jobs[i] = *last
			continue
		}
		j := &index.Jobs[i]
		j.Scope, j.JobOrderID = settlement.Scope, isa95.JobOrderID(id)
		j.setWant(key, raw)
		j.setDone(rawDone)
	}
	return index, nil
}

// Job is the entry of a job order, nil if there is none.
func (x *ScopeIndex) Job(id isa95.JobOrderID) *RetainedJob {
	if x == nil {
		return nil
	}
	if i, ok := x.at[string(id)]; ok {
		return &x.Jobs[i]
	}
	return nil
}

// ChangesQuery asks for what changed.
type ChangesQuery struct {
	After  string        // id of the entry read last; "0-0" = none
	Settle []Settlement  // to be noted, without an index
	Cursor string        // to be remembered as the last entry published; "" = as it is
	Count  int           // entries at most
	Block  time.Duration // how long to wait for the first
}

// Changes are the next changes of all scopes.
type Changes struct {
	Entries []ChangeEntry
	Missed  bool   // entries after ChangesQuery.After may have been trimmed unread (E-P7)
	Epoch   string // of the store, "" = none yet
}

// PublishedChanges notes what was published, remembers the cursor and waits for the next changes, none if none came in time. One round
// trip. ErrLeaseLost: another process publishes. After any error what was to be noted and remembered may be so or not; both may be
// repeated.
func (s *Store) PublishedChanges(ctx context.Context, l *Lease, q ChangesQuery) (Changes, error) {
	// No deadline, but an end: the client library does not heed the end of a context that has a deadline while it blocks.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(q.Block+answerTimeout, func() { cancel(context.DeadlineExceeded) }).Stop()
	failed := func(err error) (Changes, error) {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrLeaseLost) {
			err = cause
		}
		return Changes{}, fmt.Errorf("jobstore: changes: %w", err)
	}
	stream := s.keys.ChangesAll()
	before, err := s.notes(l, q.Settle, q.Cursor)
	if err != nil {
		return failed(err)
	}
	// What was read last is looked for after the read: if it is still there, nothing behind it was trimmed before.
	replies := s.rdb.DoMulti(ctx, append(s.commands(before),
		s.rdb.B().Xread().Count(int64(q.Count)).Block(max(q.Block.Milliseconds(), 1)).Streams().Key(stream).Id(q.After).Build(),
		s.rdb.B().Xrange().Key(stream).Start(q.After).End(q.After).Build(),
		s.epochCommand())...)
	if err := s.noted(ctx, before, q.Settle, replies); err != nil {
		return failed(err)
	}
	replies = replies[len(before):]
	entries, err := replies[0].AsXRead()
	if err != nil && !rueidis.IsRedisNil(err) {
		return failed(err)
	}
	last, err := replies[1].AsXRange()
	if err != nil {
		return failed(err)
	}
	var changes Changes
	if changes.Epoch, err = s.epochReply(replies[2]); err != nil {
		return failed(err)
	}
	for _, e := range entries[stream] {
		changes.Entries = append(changes.Entries, changeEntry(e))
	}
	changes.Missed = len(last) == 0
	if q.After == "0-0" { // what was before the first entry cannot be known
		changes.Missed = len(changes.Entries) > 0
	}
	return changes, nil
}

// answerTimeout bounds the wait for an answer beyond the time that the server was told to wait.
const answerTimeout = 5 * time.Second

// SaveCursor notes what was published and remembers the last entry published, "" = as it is. One round trip. ErrLeaseLost: another
// process publishes, nothing was written.
func (s *Store) SaveCursor(ctx context.Context, l *Lease, id string, settlements ...Settlement) error {
	calls, err := s.notes(l, settlements, id)
	if err != nil || len(calls) == 0 {
		return err
	}
	return s.noted(ctx, calls, settlements, s.rdb.DoMulti(ctx, s.commands(calls)...))
}

// notes are the calls that note settlements, and then the cursor unless it is "".
func (s *Store) notes(l *Lease, settlements []Settlement, cursor string) ([]call, error) {
	calls := make([]call, 0, len(settlements)+1)
	for _, settled := range settlements {
		c, err := s.settlement(l, settled)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	if cursor != "" {
		calls = append(calls, call{
			script: cursorScript, keys: []string{l.Key, s.keys.Cursors()}, args: []string{l.Token, cursor},
		})
	}
	return calls, nil
}

// noted reads the replies to notes.
func (s *Store) noted(ctx context.Context, calls []call, settlements []Settlement, replies []rueidis.RedisResult) error {
	for i, c := range calls {
		reply := s.orEval(ctx, c, replies[i])
		if i < len(settlements) {
			if _, err := s.settled(reply, settlements[i]); err != nil {
				return fmt.Errorf("jobstore: settle %s: %w", settlements[i].Scope, err)
			}
			continue
		}
		written, err := reply.AsBool()
		switch {
		case err != nil:
			return fmt.Errorf("jobstore: save cursor: %w", err)
		case !written:
			return fmt.Errorf("jobstore: save cursor: %w", ErrLeaseLost)
		}
	}
	return nil
}

// Cursor is the id of the last change that is published, "" if none ever was.
func (s *Store) Cursor(ctx context.Context) (string, error) {
	id, err := s.rdb.Do(ctx, s.rdb.B().Hget().Key(s.keys.Cursors()).Field("_global").Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", fmt.Errorf("jobstore: cursor: %w", err)
	}
	return id, nil
}

// DeadLetter is a change that cannot be published.
type DeadLetter struct {
	Scope      string
	JobOrderID string
	Entry      string // id of the change entry, if there was one
	Reason     string
}

// maxDeadLetters bounds publisher:deadletter, which nothing reads but people.
const maxDeadLetters = 1000

// BuryChanges writes what cannot be published where an operator finds it. ErrLeaseLost: another process publishes.
func (s *Store) BuryChanges(ctx context.Context, l *Lease, letters ...DeadLetter) error {
	c := commit.New()
	c.Expect(l.Key, []byte(l.Token))
	for _, d := range letters {
		c.XAdd(s.keys.PublisherDeadLetter(), maxDeadLetters,
			"scope", d.Scope, "job_order_id", d.JobOrderID, "entry", d.Entry, "reason", d.Reason)
	}
	_, err := c.Run(ctx, s.rdb)
	if errors.Is(err, ErrConflict) {
		err = ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("jobstore: dead letter: %w", err)
	}
	return nil
}

// RetainedKey is where it stands what the retained topics of a scope shall be.
func (s *Store) RetainedKey(scope isa95.Scope) string { return s.keys.PubIndex(string(scope)) }

// call is one call of a script.
type call struct {
	script     *script.Script
	keys, args []string
}

// commands send calls in a pipeline; the replies go through orEval.
func (s *Store) commands(calls []call) []rueidis.Completed {
	commands := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		sum := sha1.Sum([]byte(c.script.Source()))
		commands[i] = s.rdb.B().Evalsha().Sha1(hex.EncodeToString(sum[:])).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	return commands
}

// orEval sends the text of the script if the server did not know it (E-S20).
func (s *Store) orEval(ctx context.Context, c call, r rueidis.RedisResult) rueidis.RedisResult {
	if err, ok := rueidis.IsRedisErr(r.Error()); ok && err.IsNoScript() {
		return c.script.Run(ctx, s.rdb, c.keys, c.args...)
	}
	return r
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
