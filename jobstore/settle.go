package jobstore

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis"
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
	Floor int64  // a seq that was seen: the next is not below, and above if it would have been
	Force bool   // take a new seq though nothing changed

	// Last is the index taken before, nil = none. It becomes the next one, with what changed: with Read, the entries of these job orders
	// alone are taken (nil: all are), so that the cost is that of the change and not of the scope.
	Last *ScopeIndex
	Read []isa95.JobOrderID
}

// SettledJob is one job order whose topics the broker acknowledged.
type SettledJob struct {
	Job       *RetainedJob // as read before it was published
	Published Published
	Shown     bool // the state index shows the difference to Job.Done
	Gone      bool // the topics are deleted: nothing is to be kept, unless the order was stored again meanwhile
}

// ScopeIndex is the state index to publish: Seq, and the job orders as they were when it was taken, as InListOrder puts them.
type ScopeIndex struct {
	Scope isa95.Scope
	Epoch string // of the store
	Seq   int64
	Jobs  []*RetainedJob // without documents
	Err   error          // something else is stored where the scope's keys are

	byID map[string]*RetainedJob
}

// Settle notes what was published and takes the state indexes asked for, in the order of the settlements that asked. One round
// trip, whatever the number. ErrLeaseLost: another process publishes, nothing was written. It may be repeated without Last: a seq is
// taken only for what changed since the last.
func (s *Store) Settle(ctx context.Context, l *Lease, settlements ...Settlement) ([]*ScopeIndex, error) {
	calls, err := s.notes(l, settlements, "")
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	var indexes []*ScopeIndex
	for i, reply := range s.rdb.DoMulti(ctx, s.commands(calls)...) {
		index, err := s.settled(s.orEval(ctx, calls[i], reply), settlements[i])
		if err != nil {
			return nil, fmt.Errorf("jobstore: settle %s: %w", settlements[i].Scope, err)
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
		args: []string{l.Token, scope, strconv.FormatInt(settled.Floor, 10), flag(settled.Force), flag(settled.Index), settled.Epoch,
			flag(!settled.partly()), strconv.Itoa(len(settled.Jobs))},
	}
	for _, j := range settled.Jobs {
		done, gone := "", ""
		if j.Gone {
			gone = string(j.Job.raw)
		}
		if j.Published != (Published{}) && !j.Gone {
			value, err := isa95.Marshal(j.Published)
			if err != nil {
				return call{}, err
			}
			done = string(value)
		}
		c.args = append(c.args, string(j.Job.JobOrderID), done, flag(j.Shown), gone)
	}
	if settled.partly() {
		for _, id := range settled.Read {
			c.args = append(c.args, string(id))
		}
	}
	return c, nil
}

// partly says that not the whole index is taken.
func (s *Settlement) partly() bool {
	return s.Index && s.Last != nil && s.Read != nil && len(s.Read) <= maxRead
}

// maxRead bounds what one HMGET in a script can take.
const maxRead = 1000

func (s *Store) settled(reply rueidis.RedisResult, settlement Settlement) (*ScopeIndex, error) {
	parts, err := reply.ToArray()
	if err != nil {
		return nil, err
	}
	word := ""
	if len(parts) > 0 {
		word, err = parts[0].ToString()
	}
	switch {
	case err != nil:
		return nil, err
	case word == "lost":
		return nil, ErrLeaseLost
	case word == "type" && len(parts) == 2:
		key, err := parts[1].ToString()
		broken := &DocumentError{Key: key, Err: errors.New("is not of the type or form that Takt keeps there")}
		return &ScopeIndex{Scope: settlement.Scope, Err: broken}, err
	case word == "ok" && len(parts) == 1:
		return &ScopeIndex{Scope: settlement.Scope}, nil
	case word != "ok" || len(parts) != 6:
		return nil, fmt.Errorf("script replied %q with %d parts", word, len(parts))
	}
	seq, err := parts[1].AsInt64()
	if err != nil {
		return nil, err
	}
	epoch, err := parts[2].ToString()
	if err != nil {
		return nil, err
	}
	whole, err := parts[3].ToString()
	if err != nil {
		return nil, err
	}
	key, index := s.keys.PubIndex(string(settlement.Scope)), settlement.Last
	if whole == "1" {
		index, err = wholeIndex(key, settlement, parts[4], parts[5])
	} else {
		err = index.change(key, settlement.Read, parts[4], parts[5])
	}
	if err != nil {
		return nil, err
	}
	index.Seq, index.Epoch = seq, epoch
	return index, nil
}

// wholeIndex makes an index of two hashes; entries of the last one that are the same stay.
func wholeIndex(key string, settlement Settlement, hash, doneHash rueidis.RedisMessage) (*ScopeIndex, error) {
	want, err := hash.AsStrMap()
	if err != nil {
		return nil, err
	}
	done, err := doneHash.AsStrMap()
	if err != nil {
		return nil, err
	}
	index := &ScopeIndex{Scope: settlement.Scope, Jobs: make([]*RetainedJob, 0, len(want)), byID: make(map[string]*RetainedJob, len(want))}
	for id, raw := range want {
		j := settlement.Last.Job(isa95.JobOrderID(id))
		if j == nil || string(j.raw) != raw || j.rawDone != done[id] {
			j = listedJob(key, settlement.Scope, id, raw, done[id])
		}
		index.Jobs, index.byID[id] = append(index.Jobs, j), j
	}
	slices.SortFunc(index.Jobs, InListOrder)
	return index, nil
}

// change takes the entries of some job orders into an index: fields of pubidx and pubdone, nil where the field is missing.
func (x *ScopeIndex) change(key string, ids []isa95.JobOrderID, wanted, published rueidis.RedisMessage) error {
	want, err := wanted.ToArray()
	if err != nil {
		return err
	}
	done, err := published.ToArray()
	if err != nil {
		return err
	}
	if len(want) != len(ids) || len(done) != len(ids) {
		return fmt.Errorf("script replied with %d and %d fields of %d job orders", len(want), len(done), len(ids))
	}
	for i, id := range ids {
		raw, err := want[i].ToString()
		listed := err == nil
		rawDone, _ := done[i].ToString() // "" where the field is missing
		old := x.byID[string(id)]
		if old != nil && listed && string(old.raw) == raw && old.rawDone == rawDone {
			continue
		}
		if old != nil {
			x.drop(old)
		}
		if listed {
			j := listedJob(key, x.Scope, string(id), raw, rawDone)
			at, _ := slices.BinarySearchFunc(x.Jobs, j, InListOrder)
			x.Jobs, x.byID[string(id)] = slices.Insert(x.Jobs, at, j), j
		}
	}
	return nil
}

func listedJob(key string, scope isa95.Scope, id, raw, rawDone string) *RetainedJob {
	j := &RetainedJob{Scope: scope, JobOrderID: isa95.JobOrderID(strings.Clone(id))}
	j.setWant(key, raw)
	j.setDone(rawDone)
	return j
}

// InListOrder compares job orders as joborder:list has them: priority ascending, then id.
func InListOrder(a, b *RetainedJob) int {
	return cmp.Or(cmp.Compare(a.Want.Priority, b.Want.Priority), cmp.Compare(a.JobOrderID, b.JobOrderID))
}

// Job is the entry of a job order, nil if there is none.
func (x *ScopeIndex) Job(id isa95.JobOrderID) *RetainedJob {
	if x == nil {
		return nil
	}
	return x.byID[string(id)]
}

// Forget drops job orders that were Gone and are noted as settled: nothing is kept of them in the store either. One that was stored again meanwhile comes
// back with that change.
func (x *ScopeIndex) Forget(settled []SettledJob) {
	if x == nil {
		return
	}
	for _, s := range settled {
		if old := x.Job(s.Job.JobOrderID); s.Gone && old != nil && old.Want.Gone {
			x.drop(old)
		}
	}
}

func (x *ScopeIndex) drop(old *RetainedJob) {
	at, _ := slices.BinarySearchFunc(x.Jobs, old, InListOrder)
	x.Jobs = slices.Delete(x.Jobs, at, at+1)
	delete(x.byID, string(old.JobOrderID))
}

// Differs says whether an index lacks what was read of some job orders later.
func (x *ScopeIndex) Differs(jobs []*RetainedJob) bool {
	return slices.ContainsFunc(jobs, func(j *RetainedJob) bool {
		old := x.Job(j.JobOrderID)
		return (old != nil) != j.Listed || old != nil && !bytes.Equal(old.raw, j.raw)
	})
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
	Missed  bool   // entries after ChangesQuery.After may have been trimmed unread
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
	replies := redis.DoBlocking(ctx, s.rdb, append(s.commands(before),
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
	id, err := s.rdb.Do(ctx, s.rdb.B().Hget().Key(s.keys.Cursors()).Field(globalCursor).Build()).ToString()
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
		commands[i] = c.script.Call(s.rdb, c.keys, c.args)
	}
	return commands
}

// orEval sends the text of the script if the server did not know it.
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
