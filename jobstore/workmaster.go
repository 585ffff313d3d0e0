package jobstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/isa95"
)

// A scope runs the work master that was last delivered to it. Each content is stored once, under its SHA-256, and each
// scope has a pointer to its content:
//
//	wmx:delivered:{id}   field scope -> pointer      field "" -> number of the last delivery
//	wmx:content:{sha}    the work master that pointers point to
//	workmaster:{id}      the content of the last delivery to any scope, for other programs; Takt does not read it

// pointer is what was last delivered to one scope.
type pointer struct {
	seq     int64  // deliveries of this work master so far: the greatest is the last one
	content string // SHA-256 of the content
	data    string // SHA-256 of its data, the recipe; "" = no data
}

func (p pointer) encode() []byte {
	return []byte(strconv.FormatInt(p.seq, 10) + " " + p.content + " " + p.data)
}

func decodePointer(key, text string) (p pointer, err error) {
	seq, rest, _ := strings.Cut(text, " ")
	p.content, p.data, _ = strings.Cut(rest, " ")
	if p.seq, err = strconv.ParseInt(seq, 10, 64); err != nil || p.content == "" {
		return p, &DocumentError{Key: key, Err: fmt.Errorf("field value %.100q is not a number and two hashes", text)}
	}
	return p, nil
}

// seqField is the field of the number of the last delivery.
const seqField = ""

// Hash is the SHA-256 of a text in hex: the name of a recipe, of a work master's data and of its content.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (steps Schemas) decodeWorkMaster(key string, doc []byte) (*isa95.WorkMaster, error) {
	doc, err := steps.upgraded(doc, isa95.ConfigWorkMaster.Schema())
	w := new(isa95.WorkMaster)
	if err == nil {
		err = isa95.Unmarshal(doc, w)
	}
	if err != nil {
		return nil, &DocumentError{Key: key, Err: err}
	}
	return w, nil
}

// dataHash is the SHA-256 of the data of a work master, "" for none and for a document that cannot be read.
func dataHash(content []byte) string {
	w, err := Schemas(nil).decodeWorkMaster("", content)
	if err != nil || len(w.Data) == 0 {
		return ""
	}
	return Hash(w.Data)
}

// workMasterRead is what Load read of the work master that a scope runs.
type workMasterRead struct {
	delivered, scope string // key and field of the pointer
	pointer          []byte // nil = absent
	contents         map[string][]byte
}

// loadWorkMaster reads what the scope of q runs: its pointer, and the content that the scope had last time.
func (s *Store) loadWorkMaster(l *loader, snap *Snapshot, q Query) {
	id, scope := string(q.WorkMaster), string(q.Scope)
	r := &workMasterRead{delivered: s.keys.WorkMasterDelivered(id), scope: scope, contents: make(map[string][]byte)}
	snap.workMaster = r
	l.add(s.rdb.B().Hget().Key(r.delivered).Field(scope).Build(), func(reply rueidis.RedisResult) (err error) {
		if r.pointer, err = reply.AsBytes(); rueidis.IsRedisNil(err) {
			err = nil
		}
		return err
	})
	if sha := s.contents.get(scope, id); sha != "" {
		s.loadContent(l, r, sha)
	}
}

func (s *Store) loadContent(l *loader, r *workMasterRead, sha string) {
	l.get(s.keys.WorkMasterContent(sha), func(content []byte) error {
		r.contents[sha] = content
		return nil
	})
}

// decideWorkMaster finds out which of what was read the scope runs. It reads once more if that is a content that this process
// did not expect.
func (s *Store) decideWorkMaster(ctx context.Context, snap *Snapshot, q Query) error {
	r := snap.workMaster
	if r.pointer == nil {
		return nil
	}
	runs, err := decodePointer(r.delivered, string(r.pointer))
	if err != nil {
		return err
	}
	if r.contents[runs.content] == nil {
		var l loader
		s.loadContent(&l, r, runs.content)
		if err := l.run(ctx, s.rdb); err != nil {
			return err
		}
	}
	key := s.keys.WorkMasterContent(runs.content)
	if r.contents[runs.content] == nil {
		return missingContent(key, q.Scope, q.WorkMaster)
	}
	s.contents.put(r.scope, string(q.WorkMaster), runs.content)
	snap.WorkMaster, err = s.opt.Schemas.decodeWorkMaster(key, r.contents[runs.content])
	return err
}

func missingContent(key string, scope isa95.Scope, id isa95.WorkMasterID) *DocumentError {
	return &DocumentError{Key: key, Err: fmt.Errorf("is missing, though it is what scope %q runs as work master %q; deliver it again", scope, id)}
}

// expect makes a commit depend on the scope running what was read.
func (r *workMasterRead) expect(w *commit.Commit) { w.ExpectField(r.delivered, r.scope, r.pointer) }

// contentGuesses says which content a scope ran last: it is read together with the pointer. A wrong guess costs a round trip.
type contentGuesses struct {
	mu  sync.Mutex
	sha map[[2]string]string
}

// maxGuesses bounds the memory; past it all is forgotten.
const maxGuesses = 10_000

func (g *contentGuesses) get(scope, id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sha[[2]string{scope, id}]
}

func (g *contentGuesses) put(scope, id, sha string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := [2]string{scope, id}
	if g.sha == nil || len(g.sha) >= maxGuesses {
		g.sha = make(map[[2]string]string)
	}
	g.sha[key] = sha
}

// deliveredRead is what Load read of a work master for a delivery.
type deliveredRead struct {
	fields map[string]string // of wmx:delivered:{id}
}

// loadDelivered reads what a delivery of work master id changes, for all scopes.
func (s *Store) loadDelivered(l *loader, snap *Snapshot, id string) {
	snap.delivered = new(deliveredRead)
	l.add(s.rdb.B().Hgetall().Key(s.keys.WorkMasterDelivered(id)).Build(), func(r rueidis.RedisResult) (err error) {
		snap.delivered.fields, err = r.AsStrMap()
		return err
	})
}

// Delivery is what one delivery of a work master changes for its scope.
type Delivery struct {
	Change        string // one of the Delivery words below
	Before, After string // SHA-256 of the data, "" = none
	Others        int    // other scopes that list the work master; they keep theirs
}

// The words of Delivery.Change.
const (
	DeliveryNew       = "new"       // the scope did not have the work master
	DeliveryChanged   = "changed"   // it had another content, in data or elsewhere
	DeliveryUnchanged = "unchanged" // it had this content, or lacked what was to be removed
	DeliveryRemoved   = "removed"
)

// deliveryPlan is what a delivery will have stored.
type deliveryPlan struct {
	Delivery
	seq     int64
	pointer pointer // of the scope; zero = it goes
	content []byte  // to be stored; nil = nothing
	last    string  // the content that workmaster:{id} shall hold; "" = nothing
	orphan  string  // content without a pointer, "" = none
}

// Delivery says what c, a delivery or the removal of a work master, changes. snap was loaded with its Holders.
func (s *Store) Delivery(c Configuration, snap *Snapshot) (Delivery, error) {
	p, err := s.planDelivery(c, snap)
	if err != nil {
		return Delivery{}, err
	}
	return p.Delivery, nil
}

func (s *Store) planDelivery(c Configuration, snap *Snapshot) (*deliveryPlan, error) {
	if snap.delivered == nil {
		return nil, fmt.Errorf("jobstore: configure work master %s: its Holders were not loaded", c.ID)
	}
	key, scope := s.keys.WorkMasterDelivered(c.ID), string(c.Scope)
	p := new(deliveryPlan)
	var before, last pointer
	had, used := false, make(map[string]bool) // contents that other scopes run
	for field, text := range snap.delivered.fields {
		if field == seqField {
			p.seq, _ = strconv.ParseInt(text, 10, 64) // what is no number begins anew
			continue
		}
		at, err := decodePointer(key, text)
		switch {
		case field == scope:
			before, had = at, true // one that cannot be read is mended by the delivery
		case err != nil:
			return nil, err
		default:
			p.Others++
			used[at.content] = true
			if last.content == "" || at.seq > last.seq {
				last = at
			}
		}
	}
	p.Before, p.last = before.data, last.content
	p.seq++
	switch {
	case c.Delete && had:
		p.Change = DeliveryRemoved
	case c.Delete:
		p.Change = DeliveryUnchanged
	default:
		content, err := isa95.Marshal(storedWorkMaster{WorkMaster: *c.WorkMaster, DataSchema: isa95.ConfigWorkMaster.Schema()})
		if err != nil {
			return nil, err
		}
		p.content, p.pointer = content, pointer{seq: p.seq, content: Hash(content), data: dataHash(content)}
		p.After, p.last = p.pointer.data, p.pointer.content
		switch {
		case !had:
			p.Change = DeliveryNew
		case before.content == p.pointer.content:
			p.Change = DeliveryUnchanged
		default:
			p.Change = DeliveryChanged
		}
	}
	if before.content != "" && before.content != p.pointer.content && !used[before.content] {
		p.orphan = before.content
	}
	return p, nil
}

// configureWorkMaster adds a delivery to w. It depends on the number of the last delivery, which each one changes.
func (s *Store) configureWorkMaster(ctx context.Context, c Configuration, snap *Snapshot, w *commit.Commit) error {
	p, err := s.planDelivery(c, snap)
	if err != nil {
		return err
	}
	document, delivered, scope := s.keys.WorkMaster(c.ID), s.keys.WorkMasterDelivered(c.ID), string(c.Scope)
	var seq []byte
	if text, ok := snap.delivered.fields[seqField]; ok {
		seq = []byte(text)
	}
	w.ExpectField(delivered, seqField, seq)
	if p.orphan != "" {
		w.Expire(s.keys.WorkMasterContent(p.orphan), s.opt.EndStateRetention)
	}
	if c.Delete {
		w.SRem(s.keys.WorkMasterList(scope), c.ID)
		if p.last == "" {
			w.Del(document)
			w.Del(delivered)
			return nil
		}
		w.HDel(delivered, scope)
		last, err := s.get(ctx, s.keys.WorkMasterContent(p.last))
		if err != nil {
			return err
		}
		if last != nil { // else takt check says that it is missing
			w.Set(document, last, 0)
		}
	} else {
		w.SAdd(s.keys.WorkMasterList(scope), c.ID)
		w.Set(s.keys.WorkMasterContent(p.pointer.content), p.content, 0)
		w.HSet(delivered, scope, p.pointer.encode())
		w.Set(document, p.content, 0)
	}
	w.HSet(delivered, seqField, []byte(strconv.FormatInt(p.seq, 10)))
	return nil
}
