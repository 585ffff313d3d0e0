package lock

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

const (
	maxSpecs  = 64              // locks of one list
	maxPrefix = 256             // bytes
	grace     = time.Second     // in which a called waiter comes, or loses its place
	patience  = 2 * time.Second // for giving back what nobody waits for any more
)

// Options are those of a Locker. The zero value is usable.
type Options struct {
	// Prefix stands verbatim before every key and before the channel lock:wake; "" by default, as the peers have it. On a cluster it is "" or
	// has a hash tag, {takt}: for example. With a tag a whole list is taken in one step; without, one lock after the other.
	Prefix string

	Types *Types       // nil = the built-in ones
	Log   *slog.Logger // nil = nowhere

	// ForeignGrace is how long readers without a lease are believed in, counted from when Takt first saw their present number. They
	// are those of Python peers, who only count; one that died blocks writers until then. 0 = until an operator breaks the lock.
	ForeignGrace time.Duration
}

// Locker takes and lists locks on one Redis. It is safe for concurrent use and needs no closing.
type Locker struct {
	rdb     rueidis.Client
	prefix  string
	types   *Types
	log     *slog.Logger
	cluster bool
	setup   []string // what every script is told first
	wakes   *wakes
}

// New makes a Locker on rdb, which stays the caller's to close after the last lock is released. It asks Redis nothing.
func New(rdb rueidis.Client, o Options) (*Locker, error) {
	if rdb == nil {
		return nil, errors.New("lock: no Redis client")
	}
	l := &Locker{
		rdb: rdb, prefix: o.Prefix, types: cmp.Or(o.Types, NewTypes()), log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		cluster: rdb.Mode() == rueidis.ClientModeCluster,
	}
	if err := o.validate(l.cluster); err != nil {
		return nil, err
	}
	channel := o.Prefix + "lock:wake"
	l.setup = []string{channel, milliseconds(grace), milliseconds(o.ForeignGrace)}
	l.wakes = newWakes(rdb, channel, l.log)
	return l, nil
}

func (o Options) validate(cluster bool) error {
	switch {
	case len(o.Prefix) > maxPrefix || !utf8.ValidString(o.Prefix) || strings.ContainsFunc(o.Prefix, unicode.IsControl):
		return &SpecError{"Options.Prefix", quote(o.Prefix), fmt.Sprintf("must be UTF-8 without control characters, at most %d bytes", maxPrefix)}
	case o.ForeignGrace < 0:
		return &SpecError{"Options.ForeignGrace", o.ForeignGrace.String(), "must not be negative"}
	case cluster && o.Prefix != "" && redis.Tag(o.Prefix) == "":
		return &SpecError{"Options.Prefix", quote(o.Prefix), "must be empty or have a hash tag such as {takt}: as the server is a cluster"}
	}
	return nil
}

// part is one lock of a list, with its keys.
type part struct {
	spec Spec
	keys []string // as the scripts take them; the first is the lock's own
}

func (p part) key() string { return p.keys[0] }

// parts checks a list and puts it in the order in which it is taken: locks by key, then limiters, those of rates last, so that
// opposite orders of two callers cannot get in each other's way and no quota is used up by who is refused otherwise. Limiters
// without a limit are left out.
func (l *Locker) parts(specs []Spec) ([]part, error) {
	if len(specs) == 0 || len(specs) > maxSpecs {
		return nil, &SpecError{"specs", fmt.Sprint(len(specs), " locks"), fmt.Sprintf("must be 1 to %d", maxSpecs)}
	}
	all := make([]part, 0, len(specs))
	for i, s := range specs {
		if err := l.check(s); err != nil {
			return nil, fmt.Errorf("%w (lock %d of the list)", err, i+1)
		}
		if s.off() {
			continue
		}
		keys, err := l.keys(s)
		if err != nil {
			return nil, err
		}
		all = append(all, part{s, keys})
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(cmp.Compare(order[a.spec.kind], order[b.spec.kind]), cmp.Compare(a.key(), b.key()))
	})
	for i := 1; i < len(all); i++ {
		if all[i].key() == all[i-1].key() {
			return nil, &SpecError{"specs", all[i].key(), "must be named once in a list"}
		}
	}
	return all, nil
}

func (l *Locker) check(s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return l.types.Check(s.typ)
}

// keys are those of one lock: its own, its line, its places and, for locks, its fence. The suffixes begin with "::", which is
// in no other key of ours (see Object.name). On a cluster without a tag they get the whole key as their tag, to be in its slot.
func (l *Locker) keys(s Spec) ([]string, error) {
	key := s.Key(l.prefix)
	base := key
	if l.cluster && redis.Tag(key) == "" {
		base = "{" + key + "}"
		if l.slot(key) != l.slot(base) {
			return nil, &SpecError{"Object", quote(key), "must not have such braces: on a cluster they put the keys of one lock on several slots"}
		}
	}
	keys := []string{key, base + "::wait", base + "::until"}
	if !s.Limiter() {
		keys = append(keys, base+"::fence")
	}
	return keys, nil
}

// slot asks the library, which has to know it. Only for clusters.
func (l *Locker) slot(key string) uint16 {
	cmd := l.rdb.B().Get().Key(key).Build()
	return cmd.Slot()
}

// groups splits parts into those that one script can handle: all of them on a single server or in one slot, else one by one.
func (l *Locker) groups(parts []part) [][]part {
	if len(parts) == 0 {
		return nil
	}
	if !l.cluster || !slices.ContainsFunc(parts, func(p part) bool { return l.slot(p.key()) != l.slot(parts[0].key()) }) {
		return [][]part{parts}
	}
	return slices.Collect(slices.Chunk(parts, 1))
}

// call is what a script is told: the setup, its own arguments, and per lock kind, time to live, limit, window, items and mark.
func (l *Locker) call(parts []part, marks []string, own ...string) (keys, args []string) {
	keys = make([]string, 0, 4*len(parts))
	args = make([]string, 0, len(l.setup)+len(own)+6*len(parts))
	args = append(append(args, l.setup...), own...)
	for i, p := range parts {
		keys = append(keys, p.keys...)
		mark := ""
		if marks != nil {
			mark = marks[i]
		}
		args = append(args, string(p.spec.kind), milliseconds(p.spec.ttl), strconv.Itoa(p.spec.limit),
			strconv.FormatInt(p.spec.window.Microseconds(), 10), strconv.Itoa(p.spec.items), mark)
	}
	return keys, args
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
