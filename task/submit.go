package task

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/task/internal/wire"
)

var submitScript = script.Load(files, "task/submit")

// SubmitOption says something about one submission. Priority and Size are options too, and win over those of the type.
type SubmitOption interface{ applySubmit(*submission) }

type submitOption func(*submission)

func (f submitOption) applySubmit(s *submission) { f(s) }

func (p Priority) applySubmit(s *submission) { s.priority = p }
func (z Size) applySubmit(s *submission)     { s.size = z }

// In lets the task start no earlier than d from now, by the server's clock.
func In(d time.Duration) SubmitOption {
	return submitOption(func(s *submission) {
		if s.in, s.delayed = d, true; d < 0 {
			s.refuse("In %v is negative", d)
		}
	})
}

// At lets the task start no earlier than t, to the millisecond.
func At(t time.Time) SubmitOption {
	return submitOption(func(s *submission) {
		if s.at, s.delayed = t, true; t.Unix() < 0 || t.Year() > 9999 {
			s.refuse("At %v: want a time between 1970 and 9999", t)
		}
	})
}

// ID gives the task its id, 1-128 bytes; those that begin with "_" are Takt's own, of children of groups and of schedules. A second submission with the id is answered with the first, for Options.KnownFor. An id that a task of another type has is refused.
func ID(id string) SubmitOption {
	return submitOption(func(s *submission) {
		if s.key != "" {
			s.refuse("ID %q and a Key: want one of them", id)
		}
		s.id, s.key = id, "id:"+id
	})
}

// Key makes the submission safe to repeat: under the same key there is one task, for Options.KnownFor, and each submission gets its handle. Use it
// when an answer may be lost. A key that a task of another type has is refused. 1-128 bytes.
func Key(key string) SubmitOption {
	return submitOption(func(s *submission) {
		if s.key != "" {
			s.refuse("Key %q and an ID: want one of them", key)
		}
		s.key = "key:" + key
	})
}

// WithLabels adds labels, which handlers, metrics and people can read. The names priority, size, periodic, vo, group_id, callback_group_id and all
// that begin with "_" are Takt's own.
func WithLabels(labels map[string]string) SubmitOption {
	return submitOption(func(s *submission) { s.labels = labels })
}

// Keep stores the result, or for None that the task ended, for d, whatever the type says; 0 and less = not at all.
func Keep(d time.Duration) SubmitOption {
	return submitOption(func(s *submission) {
		if s.meta.Retention = upToMS(d); d == 0 {
			s.meta.Retention = -1
		}
	})
}

// Deadline ends the task's life at t: a run is broken off then (ErrTimeout), and none begins later; the task is dead.
func Deadline(t time.Time) SubmitOption {
	return submitOption(func(s *submission) {
		if s.meta.Deadline = t.UnixMilli(); s.meta.Deadline <= 0 || t.Year() > 9999 {
			s.refuse("Deadline %v: want a time between 1970 and 9999", t)
		}
	})
}

// RunTimeout is Timeout for one task.
func RunTimeout(d time.Duration) SubmitOption {
	return submitOption(func(s *submission) {
		if s.meta.Timeout = upToMS(d); d < 0 {
			s.meta.Timeout = -1
		}
	})
}

// UniqueKey is Unique for one task, with a key of the caller's, which must not begin with "_".
func UniqueKey(key string, ttl time.Duration) SubmitOption {
	return submitOption(func(s *submission) {
		if s.unique, s.uniqueFor = key, ttl; key == "" {
			s.refuse("UniqueKey is empty")
		}
	})
}

// uniqueness is what Unique says.
type uniqueness struct {
	ttl time.Duration
	key any // func(T) string, nil = by all arguments
	of  func(args any) string
}

// Unique allows one task of the type with the same arguments at a time: until it has ended, or ttl is over, submissions of others are refused with
// a *DuplicateError. ttl 0 = 24 h.
func Unique(ttl time.Duration) TypeOption {
	return typeOption(func(s *spec) { s.unique = &uniqueness{ttl: ttl} })
}

// UniqueBy is Unique by a part of the arguments.
func UniqueBy[T any](ttl time.Duration, key func(T) string) TypeOption {
	return typeOption(func(s *spec) {
		s.unique = &uniqueness{ttl: ttl, key: key, of: func(args any) string { return key(args.(T)) }}
	})
}

const defaultUniqueFor = 24 * time.Hour

// submission is one task on its way in.
type submission struct {
	id, key   string
	priority  Priority
	size      Size
	labels    map[string]string
	own       wire.Labels // labels of Takt's own
	meta      wire.Meta
	in        time.Duration
	at        time.Time
	delayed   bool
	unique    string
	uniqueFor time.Duration
	args      []byte
	bad       error // what is wrong with its options

	collection string // of an aggregated task
}

// Handle is a submitted task.
type Handle[R any] struct {
	Ref
	Existing bool // another submission under the same Key or ID made it

	client *Client
	out    *wire.Codec[R]
	kept   bool
}

// Submit hands one task over. When it returns nil the task is in Redis and will end exactly once as done, dead or cancelled. On another error nothing
// was changed, unless it is of the connection or a *ReplicasError: then the outcome is unknown, or may not last, and only a Key or an ID makes it safe to submit
// again. One round trip.
func (t *Type[T, R]) Submit(ctx context.Context, c *Client, args T, opts ...SubmitOption) (*Handle[R], error) {
	s, err := t.submission(ctx, c, args, opts)
	if err != nil {
		return nil, err
	}
	h := &Handle[R]{client: c, out: t.out, kept: t.keeps(s)}
	h.Ref, h.Existing, err = c.submit(ctx, &t.spec, s)
	if err != nil {
		if d, ok := errors.AsType[*DuplicateError](err); ok {
			h.ID = d.ID
			return h, err
		}
		return nil, err
	}
	return h, nil
}

// SubmitMany hands many tasks over, a pipeline at a time. The handles are in the order of args; where one is nil, the error, a *BatchError, says why. opts
// are those of each task, so ID is refused.
func (t *Type[T, R]) SubmitMany(ctx context.Context, c *Client, args []T, opts ...SubmitOption) ([]*Handle[R], error) {
	handles := make([]*Handle[R], len(args))
	backing := make([]Handle[R], len(args))
	var failed BatchError
	for from := 0; from < len(args); from += submitPage {
		page := args[from:min(from+submitPage, len(args))]
		t.submitPage(ctx, c, page, opts, func(i int, ref Ref, existing, kept bool, err error) {
			if err != nil {
				failed.add(from+i, err)
				return
			}
			backing[from+i] = Handle[R]{Ref: ref, Existing: existing, client: c, out: t.out, kept: kept}
			handles[from+i] = &backing[from+i]
		})
	}
	return handles, failed.orNil()
}

const submitPage = 256 // tasks of one pipeline

// BatchError says which tasks of a batch were not, or perhaps not, submitted.
type BatchError struct{ Errs map[int]error }

func (e *BatchError) add(i int, err error) {
	if e.Errs == nil {
		e.Errs = make(map[int]error)
	}
	e.Errs[i] = err
}

func (e *BatchError) orNil() error {
	if len(e.Errs) == 0 {
		return nil
	}
	return e
}

func (e *BatchError) first() int { return slices.Min(slices.Collect(maps.Keys(e.Errs))) }

func (e *BatchError) Error() string {
	i := e.first()
	return fmt.Sprintf("task: %d of the batch not submitted, the first is number %d: %v", len(e.Errs), i, e.Errs[i])
}

// Unwrap is the first error.
func (e *BatchError) Unwrap() error { return e.Errs[e.first()] }

func (t *Type[T, R]) submitPage(ctx context.Context, c *Client, page []T, opts []SubmitOption, done func(i int, ref Ref, existing, kept bool, err error)) {
	adds := make(rueidis.Commands, 0, len(page))
	added := make([]placed, 0, len(page)) // of adds
	var calls []script.Call
	var scripted []*submission // of calls
	var place []int
	s := new(submission) // one for all that XADD takes: their messages are made at once
	for i, args := range page {
		err := t.fill(ctx, c, s, args, opts)
		if err == nil && s.key != "" {
			err = errors.New("task: SubmitMany: an ID or a Key is of one task, submit them one by one")
		}
		if err != nil {
			done(i, Ref{}, false, false, err)
			continue
		}
		if s.scripted() {
			call, err := c.scriptCall(ctx, &t.spec, s)
			if err != nil {
				done(i, Ref{}, false, false, err)
				continue
			}
			calls, scripted, place, s = append(calls, call), append(scripted, s), append(place, i), new(submission)
			continue
		}
		cmd, err := c.xadd(ctx, &t.spec, s)
		if err != nil {
			done(i, Ref{}, false, false, err)
			continue
		}
		adds, added = append(adds, cmd), append(added, placed{i, s.ref(), t.keeps(s)})
	}
	for n, r := range c.in.DoMulti(ctx, adds...) {
		a := &added[n]
		var err error
		if a.ref.Entry, err = r.ToString(); err != nil {
			err = submitError(&t.spec, err)
		}
		done(a.place, a.ref, false, a.kept, err)
	}
	if len(calls) == 0 {
		return
	}
	for n, r := range scripted[0].script().RunMulti(ctx, c.in, calls) { // aggregated are all or none of a type
		s := scripted[n]
		ref, existing, err := s.submitted(&t.spec, r)
		done(place[n], ref, existing, t.keeps(s), err)
	}
}

// placed is a task of a page that waits for the answer to its XADD.
type placed struct {
	place int
	ref   Ref
	kept  bool
}

func (t *Type[T, R]) keeps(s *submission) bool {
	return s.meta.Retention > 0 || s.meta.Retention == 0 && t.retention > 0
}

// submission makes and checks one of args and options. No I/O.
func (t *Type[T, R]) submission(ctx context.Context, c *Client, args T, opts []SubmitOption) (*submission, error) {
	s := new(submission)
	if err := t.fill(ctx, c, s, args, opts); err != nil {
		return nil, err
	}
	return s, nil
}

// fill is submission in the place of one that is not needed any more, with its buffer for the arguments.
func (t *Type[T, R]) fill(ctx context.Context, c *Client, s *submission, args T, opts []SubmitOption) error {
	raw, err := t.args.AppendArgs(s.args[:0], args)
	if err != nil {
		return fmt.Errorf("task: %s: %w", t.name, err)
	}
	if err := t.spec.fill(ctx, c, s, raw, opts); err != nil {
		return err
	}
	if u := t.unique; u != nil && s.unique == "" {
		s.hold(t.uniqueKey(args, raw), u.ttl)
	}
	if t.aggregate != nil {
		return s.collect(&t.spec, args)
	}
	return nil
}

// submission makes and checks one of encoded arguments and options; the uniqueness of the type is the caller's.
func (t *spec) submission(ctx context.Context, c *Client, args []byte, opts []SubmitOption) (*submission, error) {
	s := new(submission)
	if err := t.fill(ctx, c, s, args, opts); err != nil {
		return nil, err
	}
	return s, nil
}

func (t *spec) fill(ctx context.Context, c *Client, s *submission, args []byte, opts []SubmitOption) error {
	*s = submission{priority: t.priority, size: t.size, args: args}
	for _, o := range opts {
		o.applySubmit(s)
	}
	if err := s.validate(); err != nil {
		return err
	}
	if s.id == "" {
		s.id = newID()
	}
	if s.unique != "" {
		s.hold(s.unique, s.uniqueFor)
	}
	if r := running(ctx); r != nil {
		s.meta.Parent = r.msg.ID
	}
	c.injectTrace(ctx, &s.meta)
	return nil
}

// hold makes the submission that of a unique task.
func (s *submission) hold(key string, ttl time.Duration) {
	if ttl <= 0 {
		ttl = defaultUniqueFor
	}
	s.unique, s.uniqueFor, s.meta.Unique = key, ttl, key
}

// refuse notes that an option is unfit; the first counts.
func (s *submission) refuse(format string, args ...any) {
	if s.bad == nil {
		s.bad = fmt.Errorf("task: "+format, args...)
	}
}

func (s *submission) validate() error {
	if s.bad != nil {
		return s.bad
	}
	if s.id != "" {
		if err := checkChosen("id", s.id); err != nil {
			return err
		}
		if begunByQueue(s.id) {
			return fmt.Errorf("task: id %q: begins with a queue and a slash, as the place of a task, QUEUE/ENTRY/ID, does; choose another", s.id)
		}
	}
	if kind, key, ok := strings.Cut(s.key, ":"); ok {
		if err := checkName(kind, key); err != nil {
			return err
		}
	}
	if s.unique != "" {
		if err := checkChosen("unique key", s.unique); err != nil {
			return err
		}
	}
	if s.uniqueFor < 0 {
		return fmt.Errorf("task: unique key %q: ttl %v is negative", s.unique, s.uniqueFor)
	}
	if len(s.labels) > maxLabels {
		return fmt.Errorf("task: %d labels: want at most %d", len(s.labels), maxLabels)
	}
	for name, value := range s.labels {
		if err := checkName("label", name); err != nil {
			return err
		}
		if reserved(name) {
			return fmt.Errorf("task: label %q: the name is Takt's own", name)
		}
		if len(value) > maxLabelValue {
			return fmt.Errorf("task: label %q: a value of %d bytes, want at most %d", name, len(value), maxLabelValue)
		}
	}
	return queueOf(s.priority, s.size).validate()
}

const (
	maxLabels     = 32
	maxLabelValue = 1024 // bytes
)

func reserved(label string) bool {
	switch label {
	case "priority", "size", "periodic", "vo", "group_id", "callback_group_id":
		return true
	}
	return strings.HasPrefix(label, ownName)
}

// scripted says whether submit.lua is needed, or XADD does.
func (s *submission) scripted() bool {
	return s.delayed || s.key != "" || s.unique != "" || s.collection != ""
}

func (s *submission) script() *script.Script {
	if s.collection != "" {
		return gatherScript
	}
	return submitScript
}

// encode is the message as it goes into Redis.
func (c *Client) encode(t *spec, s *submission) ([]byte, error) {
	m := wire.Message{ID: s.id, Name: t.name, Labels: t.labels, Args: s.args, Meta: s.meta}
	if s.priority != t.priority || s.size != t.size || len(s.labels) > 0 || len(s.own) > 0 {
		m.Labels = wire.Labels{{Key: "priority", Value: string(s.priority)}, {Key: "size", Value: string(s.size)}}
		for _, name := range slices.Sorted(maps.Keys(s.labels)) {
			m.Labels = append(m.Labels, wire.Label{Key: name, Value: s.labels[name]})
		}
		m.Labels = append(m.Labels, s.own...)
	}
	b, err := m.Append(nil)
	if err != nil {
		return nil, fmt.Errorf("task: %s: %w", t.name, err)
	}
	if len(b) > c.opts.MaxMessage {
		return nil, fmt.Errorf("%w: %s has %d bytes, want at most %d (Options.MaxMessage)", ErrTooLarge, t.name, len(b), c.opts.MaxMessage)
	}
	return b, nil
}

func (c *Client) xadd(ctx context.Context, t *spec, s *submission) (rueidis.Completed, error) {
	queue := queueOf(s.priority, s.size)
	if err := c.levels.check(ctx, c, queue); err != nil {
		return rueidis.Completed{}, err
	}
	b, err := c.encode(t, s)
	if err != nil {
		return rueidis.Completed{}, err
	}
	stream, err := c.target(ctx, queue)
	if err != nil {
		return rueidis.Completed{}, submitError(t, err)
	}
	return c.rdb.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("data", rueidis.BinaryString(b)).Build(), nil
}

// submit hands one task over: with XADD, or with submit.lua if there is more to do.
func (c *Client) submit(ctx context.Context, t *spec, s *submission) (ref Ref, existing bool, err error) {
	ref = s.ref()
	if !s.scripted() {
		cmd, err := c.xadd(ctx, t, s)
		if err != nil {
			return ref, false, err
		}
		if ref.Entry, err = c.in.Do(ctx, cmd).ToString(); err != nil {
			return ref, false, submitError(t, err)
		}
		return ref, false, nil
	}
	call, err := c.scriptCall(ctx, t, s)
	if err != nil {
		return ref, false, err
	}
	return s.submitted(t, s.script().Run(ctx, c.in, call.Keys, call.Args...))
}

// scriptCall is the call of a task's script: submit.lua, or gather.lua if it is aggregated.
func (c *Client) scriptCall(ctx context.Context, t *spec, s *submission) (script.Call, error) {
	queue := queueOf(s.priority, s.size)
	if err := c.levels.check(ctx, c, queue); err != nil {
		return script.Call{}, err
	}
	if s.collection != "" {
		return c.gatherCall(ctx, t, s)
	}
	if s.delayed && s.meta.Enqueued == 0 {
		s.meta.Enqueued = time.Now().UnixMilli()
	}
	b, err := c.encode(t, s)
	if err != nil {
		return script.Call{}, err
	}
	stream, err := c.target(ctx, queue)
	if err != nil {
		return script.Call{}, submitError(t, err)
	}
	known, unique := stream, stream
	if s.key != "" {
		known = c.keys.TaskKnown(s.key)
	}
	if s.unique != "" {
		unique = c.keys.TaskUnique(s.unique)
	}
	return script.Call{
		Keys: []string{stream, c.keys.TaskDelayed(), known, unique},
		Args: []string{rueidis.BinaryString(b), s.id, s.when(), ms(c.opts.KnownFor), ms(s.uniqueFor), string(queue), t.name},
	}, nil
}

// submitted judges the reply of a script.
func (s *submission) submitted(t *spec, r rueidis.RedisResult) (ref Ref, existing bool, err error) {
	ref = s.ref()
	reply, err := r.AsStrSlice()
	if err != nil {
		return ref, false, submitError(t, err)
	}
	kind, key, _ := strings.Cut(s.key, ":")
	switch {
	case len(reply) == 3 && reply[0] == "ok":
		ref.Entry, ref.Due = reply[1], parseDue(reply[2])
		return ref, false, nil
	case len(reply) == 6 && reply[0] == "known":
		if name := reply[5]; name != "" && name != t.name {
			return ref, false, fmt.Errorf("task: submit %s: the %s %q is that of a task of %s: want one of its own", t.name, kind, key, name)
		}
		ref.ID, ref.Entry, ref.Due = reply[1], reply[2], parseDue(reply[3])
		if reply[4] != "" {
			ref.Queue = Queue(reply[4])
		}
		return ref, true, nil
	case len(reply) == 2 && reply[0] == "duplicate":
		return ref, false, &DuplicateError{Key: s.unique, ID: reply[1]}
	}
	return ref, false, fmt.Errorf("task: submit %s: the script replied %q", t.name, reply)
}

// ref is where the task goes; the place in the queue is not known yet.
func (s *submission) ref() Ref { return Ref{ID: s.id, Queue: queueOf(s.priority, s.size)} }

func submitError(t *spec, err error) error { return fmt.Errorf("task: submit %s: %w", t.name, err) }

// when is the due time as submit.lua wants it.
func (s *submission) when() string {
	switch {
	case !s.delayed:
		return ""
	case !s.at.IsZero():
		return "=" + strconv.FormatFloat(float64(s.at.UnixMilli())/1000, 'f', 3, 64)
	}
	return "+" + strconv.FormatInt(s.in.Milliseconds(), 10)
}

func parseDue(seconds string) time.Time {
	f, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return time.Time{}
	}
	return dueOf(f)
}

// ms is a time in whole milliseconds, rounded up: a time to live of 0 is none that Redis takes.
func ms(d time.Duration) string { return strconv.FormatInt(max(upToMS(d), 0), 10) }

func upToMS(d time.Duration) int64 {
	if d <= 0 {
		return d.Milliseconds()
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// newID is 128 bits in hex: a UUID of version 7 without its dashes, so ids sort by the time they were made at.
func newID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16|0x7000|rand.Uint64()>>52)
	binary.BigEndian.PutUint64(b[8:], 1<<63|rand.Uint64()>>2)
	var text [32]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// levels are the lengths of the queues, as far as MaxBacklog needs them.
type levels struct {
	mu   sync.Mutex
	seen map[Queue]level
}

type level struct {
	length int64
	at     time.Time
}

const levelAge = 100 * time.Millisecond

func (l *levels) check(ctx context.Context, c *Client, q Queue) error {
	if c.opts.MaxBacklog == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.seen[q]
	if !ok || time.Since(last.at) > levelAge {
		n, err := c.rdb.Do(ctx, c.rdb.B().Xlen().Key(c.keys.TaskStream(string(q))).Build()).AsInt64()
		if err != nil {
			return fmt.Errorf("task: length of %s: %w", q, err)
		}
		if l.seen == nil {
			l.seen = make(map[Queue]level)
		}
		last = level{n, time.Now()}
		l.seen[q] = last
	}
	if last.length >= c.opts.MaxBacklog {
		return fmt.Errorf("%w: %s holds %d tasks, Options.MaxBacklog is %d", ErrBacklog, q, last.length, c.opts.MaxBacklog)
	}
	return nil
}
