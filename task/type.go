package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/task/internal/wire"
)

// Priority says which of the three streams of a size a task waits in. As an option it sets the priority of a type, or of one submission.
type Priority string

// Priorities, highest first; what they mean beside each other is up to the worker's Policy.
const (
	Realtime   Priority = "realtime"
	Normal     Priority = "normal" // the default
	Background Priority = "background"
)

// Size says which pool of slots a task runs in: a built-in one, or one of your own such as "gpu" or "line-3", which begins to exist when it is first named. As an option it sets the
// size of a type, or of one submission. The name of a pool is 1 to 64 bytes of a-z, 0-9, '-', '_' and '.', the first of them a letter or digit, and no Priority.
type Size string

// The built-in sizes. What they weigh is up to the deployment; a worker has a number of slots for each size that it serves.
const (
	Small  Size = "small"
	Medium Size = "medium" // the default
	Large  Size = "large"
)

// Priorities lists all there are, highest first.
func Priorities() []Priority { return []Priority{Realtime, Normal, Background} }

// Sizes lists the built-in ones.
func Sizes() []Size { return []Size{Small, Medium, Large} }

// Queue names a stream, "priority:size": one of nine, or one of the three of a pool.
type Queue string

// queues are those of the built-in sizes, priorities first; the place of one in it is its number on the way through scripts.
var queues = allQueues()

func allQueues() []Queue {
	var all []Queue
	for _, p := range Priorities() {
		for _, s := range Sizes() {
			all = append(all, Queue(p)+":"+Queue(s))
		}
	}
	return all
}

// queueOf is the queue of a priority and a size, a pool's among them; if there is none, a name that validate refuses.
func queueOf(p Priority, s Size) Queue {
	if i, j := slices.Index(Priorities(), p), slices.Index(Sizes(), s); i >= 0 && j >= 0 {
		return queues[i*len(Sizes())+j]
	}
	return Queue(p) + ":" + Queue(s)
}

// Queues lists the nine of the built-in sizes, priorities first. Those of pools are in Stats.
func Queues() []Queue { return slices.Clone(queues) }

// ParseQueue reads PRIORITY:SIZE. The size may be a pool that nobody has used yet.
func ParseQueue(text string) (Queue, error) {
	q := Queue(text)
	return q, q.validate()
}

// validate checks that q has a priority, and a size that may be one.
func (q Queue) validate() error {
	if slices.Contains(queues, q) {
		return nil
	}
	p, s, ok := strings.Cut(string(q), ":")
	if !ok || !slices.Contains(Priorities(), Priority(p)) {
		return fmt.Errorf("task: queue %q: want PRIORITY:SIZE, PRIORITY one of realtime, normal and background", q)
	}
	if err := Size(s).validate(); err != nil {
		return fmt.Errorf("task: queue %q: %w", q, err)
	}
	return nil
}

func (q Queue) size() Size { _, s, _ := strings.Cut(string(q), ":"); return Size(s) }

// None is the result of tasks that have none: nothing is kept when they end.
type None struct{}

// Defaults of a Type.
const (
	DefaultTimeout   = 30 * time.Minute
	DefaultRetention = 24 * time.Hour
	maxName          = 128 // bytes
)

// spec is what is the same for all tasks of a type.
type spec struct {
	name       string
	priority   Priority
	size       Size
	retry      RetryPolicy
	timeout    time.Duration // <= 0 = none
	retention  time.Duration // of results; <= 0 = not kept
	discard    bool          // no dead letter
	unique     *uniqueness
	aggregate  *aggregation
	locks      any // func(T) []lock.Spec
	lockSpecs  func(args any) []lock.Spec
	keyed      []any // func(T) []string
	own        []func(args any) []lock.Spec
	limits     limits
	labels     wire.Labels
	periodic   []*periodic
	positional bool // structs travel as arrays
}

// Type is a kind of task with arguments T and a result R: what those who submit it and those who handle it must agree on. Make one with Define.
// It is safe for concurrent use and not changed after it is made.
type Type[T, R any] struct {
	spec
	args *wire.Codec[T]
	out  *wire.Codec[R]
}

// TypeOption is a property of a Type.
type TypeOption interface{ applyType(*spec) }

type typeOption func(*spec)

func (f typeOption) applyType(s *spec) { f(s) }

func (p Priority) applyType(s *spec) { s.priority = p }
func (z Size) applyType(s *spec)     { s.size = z }

// Retry sets what is done when a handler fails; the default is NoRetry: the task is dead at once.
func Retry(p RetryPolicy) TypeOption { return typeOption(func(s *spec) { s.retry = p }) }

// Timeout bounds each run: its context ends after d, with cause ErrTimeout, and the run has failed. 0 = DefaultTimeout, negative = none.
func Timeout(d time.Duration) TypeOption { return typeOption(func(s *spec) { s.timeout = d }) }

// Retention is how long results are kept after the end; 0 = DefaultRetention, or nothing if R is None; negative = nothing.
func Retention(d time.Duration) TypeOption { return typeOption(func(s *spec) { s.retention = d }) }

// Discard lets a task that has failed for good end without a dead letter: it is counted and gone.
func Discard() TypeOption { return typeOption(func(s *spec) { s.discard = true }) }

// Locks says which locks and limiters a task needs while it runs, by its arguments: all of them or it does not start. f must be a pure function.
// A type has one such function; T is that of the Type.
//
// The context of a handler ends before a lock that is not renewed belongs to the next holder. A process that was stopped for longer goes on for an instant beside that
// holder: what the handler writes elsewhere carries Info.Fence, and the receiver refuses a lower one.
func Locks[T any](f func(args T) []lock.Spec) TypeOption {
	return typeOption(func(s *spec) {
		s.locks = f
		s.lockSpecs = func(args any) []lock.Spec { return f(args.(T)) }
	})
}

// Positional lets the structs of arguments and results travel as arrays, in the order of their exported fields, as Python reads and writes them; the fields of T are the
// arguments. Each program must have the same fields in the same order, and may add some only at the end: two fields that change places change their values, too. Use it only for types that
// programs in Python share. Of missing arguments the fields are zero; with more arguments than fields the task is of a newer version, see below.
//
// Without it structs travel by name, that of the field or of its json tag: fields may be moved, and a change may add some or remove some, but not both. A task that has a member that T lacks while it lacks a field of T is of another version of T: it waits for a worker
// that knows it, as one whose name is unknown, and is dead after WorkerOptions.MaxUnknown tries (ErrLayout).
// The same holds of arguments by position for a type by name, and the other way round.
func Positional() TypeOption { return typeOption(func(s *spec) { s.positional = true }) }

func (s *spec) form() wire.Form {
	if s.positional {
		return wire.ByPosition
	}
	return wire.ByName
}

// Define makes a Type. name is what stands in messages: 1-128 bytes, by convention "category:Name"; T is any type that msgpack carries. The structs
// of T and R travel by the names of their exported fields, see Positional. A json tag renames a field (`json:"to"`) or leaves it out (`json:"-"`); its options, such as omitempty, have no
// effect: a message has all members. An embedded struct is one member with the name of its type. As in JSON, members that a message lacks are zero values, and all are if it was submitted without
// arguments: a handler checks what it requires. It panics if name, T, R or an option is unfit: a Type is
// made when the program starts.
func Define[T, R any](name string, opts ...TypeOption) *Type[T, R] {
	t := &Type[T, R]{spec: spec{name: name, priority: Normal, size: Medium, retry: NoRetry{}}}
	_, none := any(*new(R)).(None)
	for _, o := range opts {
		o.applyType(&t.spec)
	}
	t.defaults(none)
	err := t.spec.validate()
	if a := t.aggregate; err == nil && a != nil {
		err = a.complete(&t.spec, (*T)(nil), none)
	}
	if err == nil {
		t.args, err = wire.NewCodec[T](t.form())
	}
	if err == nil {
		t.out, err = wire.NewCodec[R](t.form())
	}
	if _, ok := t.locks.(func(T) []lock.Spec); err == nil && t.locks != nil && !ok {
		err = fmt.Errorf("task: type %q: Locks is a %T, want func(%T) []lock.Spec", name, t.locks, *new(T))
	}
	for _, key := range t.keyed {
		if _, ok := key.(func(T) []string); err == nil && !ok {
			err = fmt.Errorf("task: type %q: ExclusiveBy is a %T, want func(%T) []string", name, key, *new(T))
		}
	}
	if err == nil && len(t.periodic) > 0 {
		err = t.schedules()
	}
	if err != nil {
		panic(fmt.Errorf("task: Define(%q): %w", name, err))
	}
	return t
}

// Name is the name given to Define.
func (t *Type[T, R]) Name() string { return t.name }

// Queue is where tasks of the type wait, unless their submission says otherwise.
func (t *Type[T, R]) Queue() Queue { return queueOf(t.priority, t.size) }

// Properties are what Define was told of a Type, with the defaults filled in.
type Properties struct {
	Name        string
	Priority    Priority
	Size        Size
	Retry       RetryPolicy
	MaxAttempts int             // 1 + the retries of Retry, 0 = it does not say or has no end
	Timeout     time.Duration   // of each run, negative = none
	Retention   time.Duration   // of results, 0 or negative = none are kept
	Discard     bool            // one that fails for good leaves no dead letter
	Schedules   []ScheduleEntry // of PerVO one, without its VO; none for what is Disabled
}

// Properties are those of t. A submission may say otherwise for its own task, and a Config for all.
func (t *Type[T, R]) Properties() Properties {
	p := Properties{
		Name: t.name, Priority: t.priority, Size: t.size, Retry: t.retry, MaxAttempts: maxAttempts(t.retry),
		Timeout: t.timeout, Retention: t.retention, Discard: t.discard,
	}
	for _, s := range t.periodic {
		if !s.disabled {
			p.Schedules = append(p.Schedules, s.entry)
		}
	}
	return p
}

// defaults completes what the options said. none: there is no result to keep.
func (s *spec) defaults(none bool) {
	s.timeout = cmp.Or(s.timeout, DefaultTimeout)
	if s.retention == 0 && !none {
		s.retention = DefaultRetention
	}
	s.labels = wire.Labels{{Key: "priority", Value: string(s.priority)}, {Key: "size", Value: string(s.size)}}
}

func (s *spec) validate() error {
	if err := checkName("name", s.name); err != nil {
		return err
	}
	if s.retry == nil {
		return errors.New("task: Retry: the policy is nil, want NoRetry{} for none")
	}
	if err := s.limits.validate(s.object()); err != nil {
		return err
	}
	return queueOf(s.priority, s.size).validate()
}

// checkName refuses what must not stand in keys, logs and tables.
func checkName(field, s string) error {
	switch {
	case s == "" || len(s) > maxName:
		return fmt.Errorf("task: %s %q: want 1 to %d bytes, has %d", field, s, maxName, len(s))
	case !utf8.ValidString(s):
		return fmt.Errorf("task: %s %q: want UTF-8", field, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("task: %s %q: control characters are not allowed", field, s)
	}
	return nil
}

// ownName begins the ids, unique keys and labels that Takt makes, so that none of them is one that a caller chose.
const ownName = "_"

// checkChosen is checkName for what a caller may choose.
func checkChosen(field, s string) error {
	if strings.HasPrefix(s, ownName) {
		return fmt.Errorf("task: %s %q: those that begin with %q are made by Takt, choose another", field, s, ownName)
	}
	return checkName(field, s)
}

// Handler is a Type with the function that does the work, for a Worker.
type Handler struct {
	spec *spec
	call func(ctx context.Context, r *run) (value []byte, err error)
	lock func(r *run) ([]lock.Spec, error)

	batch bool // made by HandleBatch
}

// Name is the name of the handler's Type.
func (h Handler) Name() string { return h.spec.name }

// Handle binds the function that does the work of t. It is called from many goroutines at once and should return soon after its context ends, whose
// cause says why: ErrTimeout, ErrCancelled, ErrLost, ErrStopped or a *lock.LostError. A nil error means that the task is done with that
// result; Cancel, RetryAfter and Snooze make errors that say what to do instead of the type's retry policy. A panic is an error.
func (t *Type[T, R]) Handle(f func(context.Context, *Job[T]) (R, error)) Handler {
	h := Handler{spec: &t.spec}
	h.call = func(ctx context.Context, r *run) ([]byte, error) {
		args, err := t.arguments(r)
		if err != nil {
			return nil, err
		}
		result, err := f(ctx, &Job[T]{Info: r.info(), Args: args})
		if err != nil || r.keep <= 0 && !r.grouped() {
			return nil, err
		}
		value, err := t.out.AppendValue(nil, result)
		if err != nil {
			return nil, &resultError{err}
		}
		return value, nil
	}
	if t.lockSpecs != nil || len(t.own) > 0 {
		h.lock = func(r *run) ([]lock.Spec, error) {
			args, err := t.arguments(r)
			if err != nil {
				return nil, err
			}
			var all []lock.Spec
			if t.lockSpecs != nil {
				all = t.lockSpecs(args)
			}
			for _, own := range t.own {
				all = append(all, own(args)...)
			}
			return all, nil
		}
	}
	return h
}

// arguments are those of a run, as its handler gets them.
func (t *Type[T, R]) arguments(r *run) (args T, err error) {
	if args, err = t.args.DecodeArgs(r.msg.Args); err != nil {
		err = &argumentError{unfit(err)}
	}
	return args, err
}

// Info is what a handler may know about the task that it runs.
type Info struct {
	ID          string
	Name        string
	Queue       Queue
	Attempt     int // 1 for the first; a run that was snoozed, blocked or broken off does not count
	MaxAttempts int // 0 = the policy does not say
	Labels      map[string]string
	GroupID     string    // "" = in no group
	ParentID    string    // "" = not submitted by a task
	Enqueued    time.Time // when it was first submitted, by the server's clock or, after a retry, by that of the submitter
	Deadline    time.Time // when this run's context ends; zero = never

	// Fence grows with every run of this task, as long as Redis loses nothing: what a run writes elsewhere with its fence, a later run can tell from its own.
	Fence uint64

	run *run
}

// Job is one run of a task as its handler gets it.
type Job[T any] struct {
	Info
	Args T
}

// Client is the one that the worker uses, for tasks that submit tasks.
func (i Info) Client() *Client { return i.run.worker.client }

// Fences are the fencing numbers of the locks that the run holds, by lock key.
func (i Info) Fences() map[string]uint64 {
	if i.run.held == nil {
		return nil
	}
	return i.run.held.Fences()
}
