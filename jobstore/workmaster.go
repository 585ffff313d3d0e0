package jobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
//	wmx:delivered:{id}   field scope -> pointer      field "" -> mark of the last delivery
//	wmx:content:{sha}    the work master that pointers point to
//	workmaster:{id}      the content of the last delivery to any scope, as other programs and older builds know it
//	wmx:scopes:{id}      the scopes that list the id, as older builds know them
//
// Older builds and other programs write workmaster:{id} alone. The mark has the hash of the document that the last delivery left
// there. A document with another hash was written later by one of them, and may be meant for each scope: it counts for
// all of them, until the next delivery makes it the content of each pointer.
//
// A delivery by a build that knows references in Parameters says so in the pointer and in the mark. Builds from before references write both without
// a word: what they delivered has no references, and neither has what other programs wrote (ADR 0037).

// pointer is what was last delivered to one scope.
type pointer struct {
	seq     int64  // deliveries of this work master so far: the greatest is the last one
	content string // SHA-256 of the content
	data    string // SHA-256 of its data, the recipe; "" = no data

	// references: a build that knows references in Parameters delivered the content. It is not set for what other programs wrote.
	// again: the scope had its data before without them. It is set with references only.
	references, again bool
}

const referencesMark, againMark = "references", "references again"

func (p pointer) encode() []byte {
	text := strconv.FormatInt(p.seq, 10) + " " + p.content + " " + p.data
	switch {
	case p.again:
		text += " " + againMark
	case p.references:
		text += " " + referencesMark
	}
	return []byte(text)
}

func decodePointer(key, text string) (p pointer, err error) {
	seq, rest, _ := strings.Cut(text, " ")
	p.content, rest, _ = strings.Cut(rest, " ")
	p.data, rest, _ = strings.Cut(rest, " ")
	p.again = rest == againMark
	p.references = p.again || rest == referencesMark
	if p.seq, err = strconv.ParseInt(seq, 10, 64); err != nil || p.content == "" {
		return p, &DocumentError{Key: key, Err: fmt.Errorf("field value %.100q is not a number and a hash", text)}
	}
	return p, nil
}

// markField is the field of the mark: a pointer whose content is the hash of the whole document at workmaster:{id}, and whose words on references
// are those of the content in it.
const markField = ""

// Hash is the SHA-256 of a text in hex: the name of a recipe, of a work master's data and of its content.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// The document at workmaster:{id} ends with the hash of its content. So no document of an older build has the same
// bytes, also with the same content.
const signMember, signEnd = `,"_content":"`, `"}`

const signLen = len(signMember) + 2*sha256.Size + len(signEnd)

func sign(content []byte) []byte {
	doc := append(bytes.Clone(content[:len(content)-1]), signMember...)
	return append(append(doc, Hash(content)...), signEnd...)
}

// unsign is the content of a document, and the hash that is written in it, "" if it has none.
func unsign(doc []byte) (content []byte, signed string) {
	at := len(doc) - signLen
	if at < 1 || !bytes.HasPrefix(doc[at:], []byte(signMember)) || !bytes.HasSuffix(doc, []byte(signEnd)) {
		return doc, ""
	}
	return append(bytes.Clone(doc[:at]), '}'), string(doc[at+len(signMember) : len(doc)-len(signEnd)])
}

func decodeWorkMaster(key string, doc []byte) (*isa95.WorkMaster, error) {
	w := new(isa95.WorkMaster)
	if err := isa95.Unmarshal(doc, w); err != nil {
		return nil, &DocumentError{Key: key, Err: err}
	}
	return w, nil
}

// dataHash is the SHA-256 of the data of a work master, "" for none and for a document that cannot be read.
func dataHash(content []byte) string {
	w, err := decodeWorkMaster("", content)
	if err != nil || len(w.Data) == 0 {
		return ""
	}
	return Hash(w.Data)
}

// workMasterRead is what Load read of the work master that a scope runs.
type workMasterRead struct {
	document, delivered string // keys
	scope               string
	pointer, mark       []byte // nil = absent
	contents            map[string][]byte
	own                 bool // the pointer of the scope counts, not the document that all share
}

// loadWorkMaster reads what the scope of q runs: the document that all scopes share, the pointer of the scope, and the content
// that the scope had last time, if that was another one than the document's.
func (s *Store) loadWorkMaster(l *loader, snap *Snapshot, q Query) {
	id, scope := string(q.WorkMaster), string(q.Scope)
	r := &workMasterRead{document: s.keys.WorkMaster(id), delivered: s.keys.WorkMasterDelivered(id), scope: scope, contents: make(map[string][]byte)}
	snap.workMaster = r
	l.get(r.document, func([]byte) error { return nil })
	if scope == "" {
		return
	}
	l.add(s.rdb.B().Hmget().Key(r.delivered).Field(scope, markField).Build(), func(reply rueidis.RedisResult) error {
		values, err := reply.ToArray()
		if err != nil {
			return err
		}
		for i, field := range []*[]byte{&r.pointer, &r.mark} {
			if i < len(values) && !values[i].IsNil() {
				if *field, err = values[i].AsBytes(); err != nil {
					return err
				}
			}
		}
		return nil
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
	doc, _ := snap.doc(r.document)
	if doc == nil {
		return nil
	}
	runs, err := r.runs(doc)
	if err != nil {
		return err
	}
	snap.References, snap.referencesAgain = runs.references, runs.again
	if _, signed := unsign(doc); r.own && signed != runs.content {
		return s.ownWorkMaster(ctx, snap, q, runs.content)
	}
	s.contents.put(r.scope, string(q.WorkMaster), "")
	snap.WorkMaster, err = decodeWorkMaster(r.document, doc)
	return err
}

// runs is the pointer to what the scope runs: its own, or the mark if it has none. It is zero if no delivery left doc.
func (r *workMasterRead) runs(doc []byte) (pointer, error) {
	if r.mark == nil {
		return pointer{}, nil
	}
	mark, err := decodePointer(r.delivered, string(r.mark))
	if err != nil || mark.content != Hash(doc) {
		return pointer{}, err
	}
	if r.pointer == nil {
		return mark, nil
	}
	r.own = true
	return decodePointer(r.delivered, string(r.pointer))
}

func (s *Store) ownWorkMaster(ctx context.Context, snap *Snapshot, q Query, sha string) error {
	r := snap.workMaster
	if r.contents[sha] == nil {
		var l loader
		s.loadContent(&l, r, sha)
		if err := l.run(ctx, s.rdb); err != nil {
			return err
		}
	}
	key := s.keys.WorkMasterContent(sha)
	if r.contents[sha] == nil {
		return &DocumentError{Key: key, Err: fmt.Errorf("is missing, though it is what scope %q runs as work master %q; deliver it again", q.Scope, q.WorkMaster)}
	}
	s.contents.put(r.scope, string(q.WorkMaster), sha)
	var err error
	snap.WorkMaster, err = decodeWorkMaster(key, r.contents[sha])
	return err
}

// expect makes a commit depend on the scope running what was read.
func (r *workMasterRead) expect(snap *Snapshot, w *commit.Commit) {
	if r.own {
		w.ExpectField(r.delivered, r.scope, r.pointer)
		return
	}
	doc, _ := snap.doc(r.document)
	w.Expect(r.document, doc)
	if r.scope != "" {
		w.ExpectField(r.delivered, r.scope, r.pointer)
		w.ExpectField(r.delivered, markField, r.mark)
	}
}

// contentGuesses says which content a scope ran last, where that is not the document that all scopes share: it is then read
// together with the pointer. A wrong guess costs a round trip.
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
	if sha == "" {
		delete(g.sha, key)
		return
	}
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
	l.get(s.keys.WorkMasterScopes(id), func([]byte) error { return nil })
	l.get(s.keys.WorkMaster(id), func([]byte) error { return nil })
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
	pointers map[string]pointer // after the delivery
	dropped  []string           // scopes whose pointer goes
	written  []string           // scopes whose pointer changes
	holders  []isa95.Scope
	relisted bool              // holders changed
	contents map[string][]byte // that have to be stored, by hash
	orphans  []string          // contents without a pointer
	last     pointer           // to the content that workmaster:{id} shall hold; zero = nothing
	seq      int64
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
	p := &deliveryPlan{pointers: make(map[string]pointer), contents: make(map[string][]byte)}
	used, err := p.adopt(s, c.ID, c.Scope, snap)
	if err != nil {
		return nil, err
	}
	scope := string(c.Scope)
	held := slices.Contains(p.holders, c.Scope)
	before, had := p.pointers[scope]
	p.Before = before.data
	p.holders = slices.DeleteFunc(p.holders, func(held isa95.Scope) bool { return held == c.Scope })
	p.Others = len(p.holders)
	p.seq++
	if c.Delete {
		p.Change, p.relisted = DeliveryUnchanged, held
		if held || had {
			p.Change = DeliveryRemoved
		}
		if had {
			delete(p.pointers, scope)
			p.dropped = append(p.dropped, scope)
		}
	} else {
		content, err := isa95.Marshal(storedWorkMaster{WorkMaster: *c.WorkMaster, DataSchema: isa95.ConfigWorkMaster.Schema()})
		if err != nil {
			return nil, err
		}
		after := pointer{seq: p.seq, content: Hash(content), data: dataHash(content), references: true}
		p.After = after.data
		switch {
		case !had:
			p.Change = DeliveryNew
		case before.content == after.content:
			p.Change = DeliveryUnchanged
		default:
			p.Change = DeliveryChanged
		}
		after.again = had && before.data == after.data && (before.again || !before.references)
		p.pointers[scope], p.contents[after.content] = after, content
		p.written = append(p.written, scope)
		p.holders = append(p.holders, c.Scope)
		slices.Sort(p.holders)
		p.relisted = !held
	}
	p.settle(used)
	return p, nil
}

// adopt takes over what older builds and other programs wrote: a document that no delivery left counts for each scope that
// has the work master. used are the contents that had pointers.
func (p *deliveryPlan) adopt(s *Store, id string, scope isa95.Scope, snap *Snapshot) (used map[string]bool, err error) {
	key, holdersKey := s.keys.WorkMasterDelivered(id), s.keys.WorkMasterScopes(id)
	used = make(map[string]bool)
	var mark pointer
	for field, text := range snap.delivered.fields {
		at, err := decodePointer(key, text)
		switch {
		case err != nil && field == string(scope): // the delivery mends it
			p.dropped = append(p.dropped, field)
		case err != nil:
			return nil, err
		case field == markField:
			mark, p.seq = at, at.seq
		default:
			p.pointers[field], used[at.content] = at, true
		}
	}
	if read, _ := snap.doc(holdersKey); read != nil {
		if err := json.Unmarshal(read, &p.holders); err != nil {
			return nil, &DocumentError{Key: holdersKey, Err: err}
		}
	}
	for scope := range p.pointers {
		if !slices.Contains(p.holders, isa95.Scope(scope)) { // an older build removed it
			delete(p.pointers, scope)
			p.dropped = append(p.dropped, scope)
		}
	}
	doc, _ := snap.doc(s.keys.WorkMaster(id))
	content, _ := unsign(doc)
	if _, err := decodeWorkMaster("", content); doc == nil || err != nil { // what cannot be read is no recipe
		return used, nil
	}
	shared := pointer{seq: p.seq, content: Hash(content), data: dataHash(content), references: mark.references, again: mark.again}
	foreign := mark.content != Hash(doc)
	if foreign {
		p.seq++
		shared.seq, shared.references, shared.again = p.seq, false, false
	}
	for _, scope := range p.holders {
		if _, ok := p.pointers[string(scope)]; foreign || !ok {
			p.pointers[string(scope)], p.contents[shared.content] = shared, content
			p.written = append(p.written, string(scope))
		}
	}
	return used, nil
}

// settle finds the contents that nothing points to any more, and the one that was delivered last.
func (p *deliveryPlan) settle(used map[string]bool) {
	pointed := make(map[string]bool)
	for _, scope := range slices.Sorted(maps.Keys(p.pointers)) {
		at := p.pointers[scope]
		pointed[at.content] = true
		if p.last.content == "" || at.seq > p.last.seq {
			p.last = at
		}
	}
	for sha := range used {
		if !pointed[sha] {
			p.orphans = append(p.orphans, sha)
		}
	}
	maps.DeleteFunc(p.contents, func(sha string, _ []byte) bool { return !pointed[sha] })
	slices.Sort(p.orphans)
	p.written = slices.DeleteFunc(p.written, func(scope string) bool { _, ok := p.pointers[scope]; return !ok })
	slices.Sort(p.written)
	p.written = slices.Compact(p.written)
}

// configureWorkMaster adds a delivery to w. All of it depends on what was read: the list of scopes, the shared document, and the
// mark, which each delivery changes.
func (s *Store) configureWorkMaster(ctx context.Context, c Configuration, snap *Snapshot, w *commit.Commit) error {
	p, err := s.planDelivery(c, snap)
	if err != nil {
		return err
	}
	document, holders, delivered := s.keys.WorkMaster(c.ID), s.keys.WorkMasterScopes(c.ID), s.keys.WorkMasterDelivered(c.ID)
	for _, key := range []string{holders, document} {
		doc, _ := snap.doc(key)
		w.Expect(key, doc)
	}
	var mark []byte
	if text, ok := snap.delivered.fields[markField]; ok {
		mark = []byte(text)
	}
	w.ExpectField(delivered, markField, mark)
	if list := s.keys.WorkMasterList(string(c.Scope)); c.Delete {
		w.SRem(list, c.ID)
	} else {
		w.SAdd(list, c.ID)
	}
	for _, sha := range p.orphans {
		w.Expire(s.keys.WorkMasterContent(sha), s.opt.EndStateRetention)
	}
	if len(p.holders) == 0 {
		w.Del(document)
		w.Del(holders)
		w.Del(delivered)
		return nil
	}
	for _, sha := range slices.Sorted(maps.Keys(p.contents)) {
		w.Set(s.keys.WorkMasterContent(sha), p.contents[sha], 0)
	}
	for _, scope := range p.dropped {
		w.HDel(delivered, scope)
	}
	for _, scope := range p.written {
		w.HSet(delivered, scope, p.pointers[scope].encode())
	}
	if p.relisted {
		list, err := json.Marshal(p.holders)
		if err != nil {
			return err
		}
		w.Set(holders, list, 0)
	}
	if p.last.content == "" { // scopes list the id and there is no document: nothing to share
		return nil
	}
	content := p.contents[p.last.content]
	if content == nil {
		if content, err = s.get(ctx, s.keys.WorkMasterContent(p.last.content)); err != nil {
			return err
		}
	}
	doc := sign(content)
	w.Set(document, doc, 0)
	w.HSet(delivered, markField, pointer{seq: p.seq, content: Hash(doc), references: p.last.references, again: p.last.again}.encode())
	return nil
}
