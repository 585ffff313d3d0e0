package jobstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"
)

// AuditEntry is one thing that a user of the web console did.
type AuditEntry struct {
	ID      string    `json:"id"`                // of the entry, given by Redis; ids rise with time
	Time    time.Time `json:"time"`              // by the clock of Redis
	User    string    `json:"user,omitempty"`    // "" = nobody logs in there
	Role    string    `json:"role,omitempty"`    // that the user had
	Address string    `json:"address,omitempty"` // of the user's machine
	Action  string    `json:"action"`            // part and verb: task.retry
	Object  string    `json:"object,omitempty"`  // id
	Reason  string    `json:"reason,omitempty"`  // as the user gave it
	Outcome string    `json:"outcome"`           // one sentence
}

// Bounds of the audit stream, and of each of its texts in bytes.
const (
	auditEntries = 10_000
	auditText    = 500
	auditRead    = 1000 // entries at a time
)

func (e *AuditEntry) fields() map[string]*string {
	return map[string]*string{"user": &e.User, "role": &e.Role, "address": &e.Address, "action": &e.Action, "object": &e.Object, "reason": &e.Reason, "outcome": &e.Outcome}
}

// Audit adds an entry to the stream of what users of the web console did, which keeps about the last 10000. Redis gives it id and time; a text of more than 500 bytes is cut. It takes
// the right to add to the key console:audit.
func (s *Store) Audit(ctx context.Context, e AuditEntry) error {
	add := s.rdb.B().Xadd().Key(s.keys.ConsoleAudit()).Maxlen().Almost().Threshold(strconv.Itoa(auditEntries)).Id("*").FieldValue()
	for name, value := range e.fields() {
		text := *value
		if len(text) > auditText {
			cut := auditText
			for cut > 0 && !utf8.RuneStart(text[cut]) {
				cut--
			}
			text = text[:cut] + "…"
		}
		add = add.FieldValue(name, text)
	}
	if err := s.rdb.Do(ctx, add.Build()).Error(); err != nil {
		return fmt.Errorf("jobstore: audit: %w", err)
	}
	return nil
}

// Audits are the newest entries of a user that are older than the one of an id, at most count of them, the newest first; user "" = all users, before "" = from the newest one. It
// takes a command for each thousand entries that it looks through.
func (s *Store) Audits(ctx context.Context, user, before string, count int) (entries []AuditEntry, err error) {
	read := auditRead
	if user == "" {
		read = count
	}
	end := "+"
	if before != "" {
		end = "(" + before
	}
	for len(entries) < count {
		found, err := s.rdb.Do(ctx, s.rdb.B().Xrevrange().Key(s.keys.ConsoleAudit()).End(end).Start("-").Count(int64(read)).Build()).AsXRange()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("jobstore: audit: %w", err)
		}
		for _, x := range found {
			e := AuditEntry{ID: x.ID}
			for name, to := range e.fields() {
				*to = x.FieldValues[name]
			}
			ms, _, _ := strings.Cut(x.ID, "-")
			at, _ := strconv.ParseInt(ms, 10, 64) // an id of Redis
			e.Time = time.UnixMilli(at).UTC()
			if (user == "" || e.User == user) && len(entries) < count {
				entries = append(entries, e)
			}
		}
		if len(found) < read {
			break
		}
		end = "(" + found[len(found)-1].ID
	}
	return entries, nil
}
