package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

// Published is what the broker has acknowledged of one job order: a field of pubdone:{scope}. "" = no such topic.
type Published struct {
	Order  string `json:"order,omitempty"`  // revision, in the publisher's words
	Result string `json:"result,omitempty"` // revision of the response
	// Refused: there is no order topic, for the broker refuses it or the order has no document that could be published. The
	// state index shows the job order all the same.
	Refused bool `json:"refused,omitempty"`
}

// RetainedJob is one job order as its retained topics see it: what they shall be, what they are, and, if asked for, the documents.
type RetainedJob struct {
	Scope      isa95.Scope
	JobOrderID isa95.JobOrderID
	Listed     bool       // pubidx names it
	Want       IndexEntry // zero if it is not listed
	Done       Published
	Err        error // a field or a document cannot be read, or is not of this scope: nothing to publish

	Read           bool         // the documents were read: what follows says what there is
	Job            *StoredOrder // nil: there is none. Others may have it too: it must not be changed
	Response       *isa95.JobResponse
	ResultRevision string // of Response

	Encoded []byte // for the publisher: the entry as it stands in the state index, empty = in none; nil = not encoded yet

	raw     []byte // Want as read
	rawDone string // Done as read, "" = absent
}

// RetainedScope is the job orders of one scope.
type RetainedScope struct {
	Scope isa95.Scope
	Jobs  []*RetainedJob
	Seq   int64 // of the last state index, 0 if there was none; only of whole scopes
	Err   error // something else is stored where the scope's keys are
}

// RetainedQuery asks for some job orders of one scope, with their documents as far as RetainedBytes allows; or, JobOrderIDs nil, for
// all without.
type RetainedQuery struct {
	Scope       isa95.Scope
	JobOrderIDs []isa95.JobOrderID
}

// Revision tells two contents apart.
func Revision(content []byte) string { return revision(content) }

// ResultRevisions are the revisions that the response in a retained topic has, published in that scope: one for each state in which a job order has a result.
func ResultRevisions(payload []byte, scope isa95.Scope) ([]string, error) {
	var r isa95.JobResponse
	if err := isa95.Unmarshal(payload, &r); err != nil {
		return nil, err
	}
	var revisions []string
	for _, state := range isa95.States() {
		if !state.Clearable() {
			continue
		}
		doc, err := encodeResponse(&r, state, scope)
		if err != nil {
			return nil, err
		}
		revisions = append(revisions, revision(doc))
	}
	return revisions, nil
}

// RetainedBytes bounds the documents of job orders that are read at once for their retained topics. A larger one is read alone.
const RetainedBytes = 2 << 20

//go:embed documents.lua
var documentsLua string

var documentsScript = script.NewReader("jobstore/documents", documentsLua)

// Retained reads what the retained topics of the job orders shall be and what the broker has. One round trip, whatever the number;
// the documents are read after the index, so they are at least as new. Of those named, the first have their documents, as many as
// RetainedBytes allows over all queries (RetainedJob.Read); RetainedDocuments reads those of the others.
func (s *Store) Retained(ctx context.Context, queries ...RetainedQuery) ([]RetainedScope, error) {
	scopes := make([]RetainedScope, len(queries))
	var l loader
	var named []*RetainedJob
	for i, q := range queries {
		scope := &scopes[i]
		scope.Scope = q.Scope
		if q.JobOrderIDs == nil {
			s.loadScope(&l, scope)
		} else {
			s.loadJobs(&l, scope, q.JobOrderIDs)
			named = append(named, scope.Jobs...)
		}
	}
	s.loadDocuments(ctx, &l, named)
	if err := l.run(ctx, s.rdb); err != nil {
		return nil, err
	}
	return scopes, nil
}

// loadScope adds the reads of a whole scope.
func (s *Store) loadScope(l *loader, scope *RetainedScope) {
	index, done := s.keys.PubIndex(string(scope.Scope)), s.keys.PubDone(string(scope.Scope))
	byID := make(map[string]*RetainedJob)
	job := func(id string) *RetainedJob {
		j := byID[id]
		if j == nil {
			j = &RetainedJob{Scope: scope.Scope, JobOrderID: isa95.JobOrderID(id)}
			byID[id], scope.Jobs = j, append(scope.Jobs, j)
		}
		return j
	}
	l.add(s.rdb.B().Hgetall().Key(index).Build(), orBroken(scope, index, func(r rueidis.RedisResult) error {
		fields, err := r.AsStrMap()
		for id, raw := range fields {
			job(id).setWant(index, raw)
		}
		return err
	}))
	l.add(s.rdb.B().Hgetall().Key(done).Build(), orBroken(scope, done, func(r rueidis.RedisResult) error {
		fields, err := r.AsStrMap()
		for id, raw := range fields {
			job(id).setDone(raw)
		}
		slices.SortFunc(scope.Jobs, func(a, b *RetainedJob) int { return compareIDs(a.JobOrderID, b.JobOrderID) })
		return err
	}))
	seq := s.keys.PubSeq(string(scope.Scope))
	l.add(s.rdb.B().Get().Key(seq).Build(), orBroken(scope, seq, func(r rueidis.RedisResult) (err error) {
		scope.Seq, err = r.AsInt64()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	}))
}

// loadJobs adds the reads of some job orders of a scope.
func (s *Store) loadJobs(l *loader, scope *RetainedScope, ids []isa95.JobOrderID) {
	index, done := s.keys.PubIndex(string(scope.Scope)), s.keys.PubDone(string(scope.Scope))
	fields := make([]string, len(ids))
	scope.Jobs = make([]*RetainedJob, len(ids))
	for i, id := range ids {
		fields[i] = string(id)
		scope.Jobs[i] = &RetainedJob{Scope: scope.Scope, JobOrderID: id}
	}
	hash := func(key string, set func(j *RetainedJob, raw string)) {
		l.add(s.rdb.B().Hmget().Key(key).Field(fields...).Build(), orBroken(scope, key, func(r rueidis.RedisResult) error {
			values, err := r.ToArray()
			for i, v := range values {
				if raw, err := v.ToString(); err == nil {
					set(scope.Jobs[i], raw)
				}
			}
			return err
		}))
	}
	hash(index, func(j *RetainedJob, raw string) { j.setWant(index, raw) })
	hash(done, func(j *RetainedJob, raw string) { j.setDone(raw) })
}

// RetainedDocuments reads the documents of the first of the job orders, as many as RetainedBytes allows and at least of one, and marks
// these as Read. One round trip.
func (s *Store) RetainedDocuments(ctx context.Context, jobs []*RetainedJob) error {
	var l loader
	s.loadDocuments(ctx, &l, jobs)
	return l.run(ctx, s.rdb)
}

func (s *Store) loadDocuments(ctx context.Context, l *loader, jobs []*RetainedJob) {
	if len(jobs) == 0 {
		return
	}
	c := call{script: documentsScript, args: []string{strconv.Itoa(RetainedBytes)}}
	for _, j := range jobs {
		c.keys = append(c.keys, s.keys.JobOrder(string(j.JobOrderID)), s.keys.JobResponse(string(ResponseID(j.JobOrderID))))
	}
	l.add(s.commands([]call{c})[0], func(r rueidis.RedisResult) error {
		docs, err := s.orEval(ctx, c, r).ToArray()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(docs); i += 2 {
			order, _ := docs[i].AsBytes() // nil: absent, or no string: to the publisher the same
			response, _ := docs[i+1].AsBytes()
			j := jobs[i/2]
			j.Read = true
			s.setDocuments(j, order, c.keys[i+1], response)
		}
		return nil
	})
}

func (j *RetainedJob) setWant(key, raw string) {
	j.Listed, j.raw = true, []byte(raw)
	var err error
	if j.Want, err = decodeIndexEntry(key, j.raw); err != nil {
		j.Err = err
	}
}

// setDone takes what cannot be read for something else: then it is published again.
func (j *RetainedJob) setDone(raw string) {
	if j.rawDone = raw; raw == "" {
		return
	}
	if isa95.Unmarshal([]byte(raw), &j.Done) != nil {
		j.Done = Published{Order: "?", Result: "?"}
	}
}

func (s *Store) setDocuments(j *RetainedJob, order []byte, responseKey string, response []byte) {
	if !j.Listed || j.Want.Gone {
		return // whatever is stored under the id is another order's, perhaps of another scope
	}
	if order != nil {
		o, err := s.decodeJob(j.JobOrderID, order)
		switch {
		case err != nil:
			j.Err = errors.Join(j.Err, err)
		case o.Scope != j.Scope:
			j.Err = errors.Join(j.Err, &DocumentError{Key: s.keys.JobOrder(string(j.JobOrderID)), Err: fmt.Errorf("belongs to %s, not to %s", o.Scope, j.Scope)})
		default:
			j.Job = o
		}
	}
	if response == nil {
		return
	}
	r, err := s.opt.Schemas.decodeResponse(responseKey, response)
	if err != nil {
		j.Err = errors.Join(j.Err, err)
		return
	}
	j.Response, j.ResultRevision = r, revision(response)
}

// orBroken makes an error reply about the key, such as WRONGTYPE, an error of its scope only.
func orBroken(scope *RetainedScope, key string, decode func(rueidis.RedisResult) error) func(rueidis.RedisResult) error {
	return func(r rueidis.RedisResult) error {
		err := decode(r)
		if err == nil || Waits(err) {
			return err
		}
		if _, said := rueidis.IsRedisErr(err); said || errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
			scope.Err = errors.Join(scope.Err, &DocumentError{Key: key, Err: err})
			return nil
		}
		return err
	}
}

func compareIDs(a, b isa95.JobOrderID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
