package lock

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

// Info is one lock as it is now, for people.
type Info struct {
	Kind      string        `json:"kind"` // mutex, rw, concurrency, rate
	Key       string        `json:"key"`  // for Break
	Owners    []Owner       `json:"owners,omitempty"`
	Fence     uint64        `json:"fence,omitempty"`      // the last number given out; 0 = none for ten minutes
	ExpiresIn time.Duration `json:"expires_in,omitempty"` // until the last lease here ends, of a rate the window; 0 = never, or nobody has it
	Waiters   int           `json:"waiters"`

	Readers        int           `json:"readers,omitempty"`         // of rw, ForeignReaders included
	ForeignReaders int           `json:"foreign_readers,omitempty"` // without a lease
	Used           int           `json:"used,omitempty"`            // of limiters: holders, or items in the window
	Limit          int           `json:"limit,omitempty"`           // of rate, as of the last grant; 0 = unknown: slots do not say
	Window         time.Duration `json:"window,omitempty"`          // of rate
}

// Owner is one who has a lock.
type Owner struct {
	Name      string        `json:"name"`
	ExpiresIn time.Duration `json:"expires_in,omitempty"` // 0 = never
	Writes    bool          `json:"writes,omitempty"`     // has a reader-writer lock for writing
}

const (
	defaultList = 1000
	pageSize    = 100 // locks looked at in one script
)

// kinds are what List finds, by the beginning of the key.
var kinds = []struct {
	family, name string
	spec         Spec
}{
	{"lock:mutex:", "mutex", Spec{kind: kindMutex}},
	{"lock:rw:", "rw", Spec{kind: kindRead}},
	// How many slots there are is not stored. When one is broken, so many are called, and those that do not fit are refused.
	{"limiter:conc:", "concurrency", Spec{kind: kindConc, limit: pageSize}},
	{"limiter:rate:", "rate", Spec{kind: kindRate}},
}

// List looks at locks that are held or waited for and at limiters in use, in the order of their keys. match is a glob as of Redis for the key
// below the prefix, "" = all; one that fits the key but not what follows it finds no lock that is free and only waited for. At most limit are
// returned, 0 = 1000. It goes through all keys of the server (SCAN), changes nothing, and what it returns was true at slightly different
// times.
func (l *Locker) List(ctx context.Context, match string, limit int) ([]Info, error) {
	if limit <= 0 {
		limit = defaultList
	}
	found := make(map[string]part)
	err := redis.Scan(ctx, l.rdb, l.pattern(match), func(keys []string) error {
		l.collect(found, keys)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock: list: %w", err)
	}
	return l.lookAll(ctx, found, limit)
}

// ListPage is List for a part of the keys of the server, about 50,000, in at most ten commands and one for each 100 locks. cursor is next of the page before, "" at first; next "" = this was the last.
// Of more than limit locks among these keys the rest is left out, so give a match then.
// On a cluster it asks all nodes for all keys, as List does.
func (l *Locker) ListPage(ctx context.Context, match, cursor string, limit int) (infos []Info, next string, err error) {
	at, err := strconv.ParseUint(cmp.Or(cursor, "0"), 10, 64)
	if err != nil {
		return nil, "", fmt.Errorf("lock: list: cursor %q: want that of the page before", cursor)
	}
	if l.cluster {
		infos, err = l.List(ctx, match, limit)
		return infos, "", err
	}
	found := make(map[string]part)
	for range 10 {
		page, err := l.rdb.Do(ctx, l.rdb.B().Scan().Cursor(at).Match(l.pattern(match)).Count(scanned).Build()).AsScanEntry()
		if err != nil {
			return nil, "", fmt.Errorf("lock: list: %w", err)
		}
		l.collect(found, page.Elements)
		if at = page.Cursor; at == 0 || len(found) >= limit {
			break
		}
	}
	if at > 0 {
		next = strconv.FormatUint(at, 10)
	}
	infos, err = l.lookAll(ctx, found, limit)
	return infos, next, err
}

const scanned = 5000 // keys of one command of ListPage

func (l *Locker) pattern(match string) string { return redis.Glob(l.prefix) + cmp.Or(match, "*") }

// collect adds the locks among keys.
func (l *Locker) collect(found map[string]part, keys []string) {
	for _, key := range keys {
		key = strings.TrimSuffix(key, "::wait")
		if l.cluster && strings.HasPrefix(key, "{"+l.prefix) && strings.HasSuffix(key, "}") {
			key = key[1 : len(key)-1]
		}
		if _, p, err := l.place(key); err == nil {
			found[p.key()] = p
		}
	}
}

// lookAll looks at locks in the order of their keys, at most limit.
func (l *Locker) lookAll(ctx context.Context, found map[string]part, limit int) ([]Info, error) {
	var infos []Info
	size := pageSize
	if l.cluster {
		size = 1
	}
	for group := range slices.Chunk(slices.SortedFunc(maps.Values(found), func(a, b part) int { return cmp.Compare(a.key(), b.key()) }), size) {
		if len(infos) >= limit {
			break
		}
		some, err := l.look(ctx, group)
		if err != nil {
			return nil, fmt.Errorf("lock: list: %w", err)
		}
		infos = append(infos, some...)
	}
	return infos[:min(limit, len(infos))], nil
}

// place finds out what lock a key is. ErrNoLock: it is none.
func (l *Locker) place(key string) (kind string, _ part, _ error) {
	rest, ours := strings.CutPrefix(key, l.prefix)
	if !ours || strings.Contains(rest, "::") {
		return "", part{}, ErrNoLock
	}
	for _, k := range kinds {
		if object, ok := strings.CutPrefix(rest, k.family); ok && object != "" {
			k.spec.object = object
			keys, err := l.keys(k.spec)
			return k.name, part{k.spec, keys}, err
		}
	}
	return "", part{}, ErrNoLock
}

// look leaves out what is not there any more.
func (l *Locker) look(ctx context.Context, group []part) ([]Info, error) {
	keys, args := l.call(group, nil)
	replies, err := listScript.Run(ctx, l.rdb, keys, args...).ToArray()
	if err != nil {
		return nil, err
	}
	if len(replies) != len(group) {
		return nil, fmt.Errorf("script replied for %d locks instead of %d", len(replies), len(group))
	}
	var infos []Info
	for i, reply := range replies {
		words, err := reply.AsStrSlice()
		if err != nil {
			return nil, err
		}
		info, there, err := l.info(group[i], words)
		if err != nil {
			return nil, err
		}
		if there {
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// info reads what info.lua says.
func (l *Locker) info(p part, reply []string) (_ Info, there bool, _ error) {
	const fixed = 9
	bad := fmt.Errorf("script replied %q for %s", reply, p.key())
	if len(reply) < fixed {
		return Info{}, false, bad
	}
	n, err := integers(reply[:fixed]...)
	if err != nil || len(reply) != fixed+3*int(n[8]) {
		return Info{}, false, bad
	}
	kind, _, _ := l.place(p.key())
	info := Info{Kind: kind, Key: p.key(), ExpiresIn: since(n[1]), Fence: uint64(n[2]), Waiters: int(n[3]), ForeignReaders: int(n[7])}
	for i := fixed; i < len(reply); i += 3 {
		left, err := strconv.ParseInt(reply[i+1], 10, 64)
		if err != nil {
			return Info{}, false, bad
		}
		info.Owners = append(info.Owners, Owner{Name: reply[i], ExpiresIn: since(left), Writes: reply[i+2] == "w"})
	}
	slices.SortFunc(info.Owners, func(a, b Owner) int { return cmp.Compare(a.Name, b.Name) })
	switch p.spec.kind {
	case kindRead:
		info.Readers = info.ForeignReaders + len(slices.DeleteFunc(slices.Clone(info.Owners), func(o Owner) bool { return o.Writes }))
	case kindConc:
		info.Used = int(n[4])
	case kindRate:
		info.Used, info.Limit, info.Window = int(n[4]), int(n[5]), time.Duration(n[6])*time.Microsecond
	}
	return info, n[0] == 1, nil
}

func since(ms int64) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// Break takes a lock from whoever has it, and resets a limiter, for an operator; key is that of Info. It returns the lock as it was. The
// holder's context ends at its next renewal, a third of its time to live away: until then two may work, and the fence, which goes up, tells
// them apart. ErrNoLock: there is nothing to break.
func (l *Locker) Break(ctx context.Context, key string) (Info, error) {
	_, p, err := l.place(key)
	if err != nil {
		return Info{}, fmt.Errorf("%w: %s", err, key)
	}
	keys, args := l.call([]part{p}, nil)
	reply, err := breakScript.Run(ctx, l.rdb, keys, args...).AsStrSlice()
	if err != nil {
		return Info{}, fmt.Errorf("lock: break %s: %w", key, err)
	}
	info, there, err := l.info(p, reply)
	switch {
	case err != nil:
		return Info{}, fmt.Errorf("lock: break: %w", err)
	case !there:
		return Info{}, fmt.Errorf("%w: %s", ErrNoLock, key)
	}
	l.log.Warn("lock: broken by an operator", "key", key, "owners", info.Owners)
	return info, nil
}
