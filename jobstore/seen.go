package jobstore

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/commit"
)

// A CloudEvent that was handled is known by scope, source and id. Earlier versions know it by source and id alone, under another key, and may run beside this
// one: for one release that key is read and written, too.

// seenEvent is the value kept for an event that is not answered.
const seenEvent = "1"

// seenSeparator stands between the revision of a command's body and the reply that was given.
const seenSeparator = " "

// seenValue is what a key of a CloudEvent holds.
type seenValue struct {
	body  string            // Revision of the body of a command, "" for an event
	reply *cloudevent.Event // to a command; its subject is that of the command, its cause the id of the command
	scope string            // "" = not known
	id    string            // "" = not known
}

// of says whether v may be that of a CloudEvent.
func (v seenValue) of(scope, id string, command bool) bool {
	return command == (v.reply != nil) && (v.scope == scope || v.scope == "") && (v.id == id || v.id == "")
}

func decodeSeen(key string, doc []byte) (seenValue, error) {
	if string(doc) == seenEvent {
		return seenValue{}, nil
	}
	body, text, ok := strings.Cut(string(doc), seenSeparator)
	if !ok {
		return seenValue{}, &DocumentError{Key: key, Err: errors.New("has no reply")}
	}
	var reply cloudevent.Event
	if err := reply.UnmarshalJSON([]byte(text)); err != nil {
		return seenValue{}, &DocumentError{Key: key, Err: err}
	}
	v := seenValue{body: body, scope: reply.Scope(), id: reply.CausationID}
	if body != "" {
		v.reply = &reply
	}
	return v, nil
}

// encodeSeen is the value for the key with the scope.
func encodeSeen(seen *Seen) ([]byte, error) {
	if seen.Reply == nil {
		return []byte(seenEvent), nil
	}
	text, err := seen.Reply.MarshalJSON()
	return append([]byte(revision(seen.Body)+seenSeparator), text...), err
}

// seenEventOf is the value for an event under the key without the scope: no body, and a CloudEvent that names the scope and the id. Earlier versions read it as
// handled.
func seenEventOf(scope, id string) []byte {
	text, _ := json.Marshal(map[string]string{"causationid": id, "subject": scope}) // strings are always JSON
	return append([]byte(seenSeparator), text...)
}

// seenKeys are those of one CloudEvent.
type seenKeys struct {
	id      string // of the CloudEvent
	key     string
	old     string // without the scope
	foreign bool   // old speaks of another CloudEvent, and stays as it is
	found   string // the one that says that the CloudEvent was handled; "" = it was not
}

// loadSeen reads both keys. What the one without the scope says counts if it speaks of this CloudEvent, or of an event of a scope that is not known: an earlier
// version may have handled it. A command never counts as handled since an event, or a command of another scope, has its source and id, or the same text of both.
func (s *Store) loadSeen(l *loader, snap *Snapshot, q Query) {
	scope, command := string(q.Scope), len(q.Mailboxes) == 0
	k := &snap.seen
	k.id, k.key, k.old = q.ID, s.keys.Dedupe(scope, q.Source, q.ID), s.keys.DedupeWithoutScope(q.Source, q.ID)
	found := func(key string, v seenValue) {
		if k.found == "" {
			k.found, snap.Seen, snap.SeenBody, snap.Reply = key, true, v.body, v.reply
		}
	}
	l.get(k.key, func(doc []byte) error {
		v, err := decodeSeen(k.key, doc)
		if err == nil {
			found(k.key, v)
		}
		return err
	})
	l.get(k.old, func(doc []byte) error {
		v, err := decodeSeen(k.old, doc)
		if err != nil {
			return err
		}
		if k.foreign = !v.of(scope, k.id, command); !k.foreign {
			found(k.old, v)
		}
		return nil
	})
}

// expectSeen makes c fail with ErrConflict if the CloudEvent was handled meanwhile, by this version or an earlier one.
func (snap *Snapshot) expectSeen(c *commit.Commit) {
	c.Expect(snap.seen.key, nil)
	old, _ := snap.doc(snap.seen.old)
	c.Expect(snap.seen.old, old)
}

// writeSeen notes that the CloudEvent was handled.
func (s *Store) writeSeen(c *commit.Commit, snap *Snapshot, seen *Seen) error {
	value, err := encodeSeen(seen)
	if err != nil {
		return err
	}
	c.Set(snap.seen.key, value, s.opt.ReplyRetention)
	if snap.seen.foreign {
		return nil
	}
	if seen.Reply == nil {
		value = seenEventOf(string(snap.Scope), snap.seen.id)
	}
	c.Set(snap.seen.old, value, s.opt.ReplyRetention)
	return nil
}

// writeTaken notes that an early event was handled, which Load was not asked for.
func (s *Store) writeTaken(c *commit.Commit, scope, source, id string) {
	c.Set(s.keys.Dedupe(scope, source, id), []byte(seenEvent), s.opt.ReplyRetention)
	c.Set(s.keys.DedupeWithoutScope(source, id), seenEventOf(scope, id), s.opt.ReplyRetention)
}
