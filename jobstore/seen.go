package jobstore

import (
	"errors"
	"strings"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/commit"
)

// A CloudEvent that was handled is known by scope, source and id.

// seenEvent is the value kept for an event that is not answered.
const seenEvent = "1"

// seenSeparator stands between the revision of a command's body and the reply that was given.
const seenSeparator = " "

// seenKeys is where one CloudEvent is noted.
type seenKeys struct {
	key   string
	found bool
}

// loadSeen reads whether the CloudEvent was handled, and the reply that a command got.
func (s *Store) loadSeen(l *loader, snap *Snapshot, q Query) {
	k := &snap.seen
	scope := string(q.Scope)
	if q.Program != "" { // each program handles it for itself; no scope has a slash
		scope = q.Program + "/" + scope
	}
	k.key = s.keys.Dedupe(scope, q.Source, q.ID)
	l.get(k.key, func(doc []byte) error {
		body, reply, err := decodeSeen(k.key, doc)
		if err == nil {
			k.found, snap.Seen, snap.SeenBody, snap.Reply = true, true, body, reply
		}
		return err
	})
}

// decodeSeen is the revision of a command's body and the reply that it got; of an event nothing.
func decodeSeen(key string, doc []byte) (body string, _ *cloudevent.Event, _ error) {
	if string(doc) == seenEvent {
		return "", nil, nil
	}
	body, text, ok := strings.Cut(string(doc), seenSeparator)
	if !ok || body == "" {
		return "", nil, &DocumentError{Key: key, Err: errors.New("has no reply")}
	}
	var reply cloudevent.Event
	if err := reply.UnmarshalJSON([]byte(text)); err != nil {
		return "", nil, &DocumentError{Key: key, Err: err}
	}
	return body, &reply, nil
}

// encodeSeen is what is noted.
func encodeSeen(seen *Seen) ([]byte, error) {
	if seen.Reply == nil {
		return []byte(seenEvent), nil
	}
	text, err := seen.Reply.MarshalJSON()
	return append([]byte(revision(seen.Body)+seenSeparator), text...), err
}

// expectSeen makes c fail with ErrConflict if the CloudEvent was handled meanwhile.
func (snap *Snapshot) expectSeen(c *commit.Commit) { c.Expect(snap.seen.key, nil) }

// writeSeen notes that the CloudEvent was handled.
func (s *Store) writeSeen(c *commit.Commit, snap *Snapshot, seen *Seen) error {
	value, err := encodeSeen(seen)
	if err != nil {
		return err
	}
	c.Set(snap.seen.key, value, s.opt.ReplyRetention)
	return nil
}

// writeTaken notes that an early event was handled, which Load was not asked for.
func (s *Store) writeTaken(c *commit.Commit, scope, source, id string) {
	c.Set(s.keys.Dedupe(scope, source, id), []byte(seenEvent), s.opt.ReplyRetention)
}
