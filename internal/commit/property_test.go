package commit_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
)

// step is one decision of one writer: it adds its name to some documents at once, to a sorted set, a stream and a count.
type step struct {
	name   string
	docs   []int
	poison bool // it also writes to a key of another type, so it must leave no trace
}

// world is where writers meet.
type world struct {
	rdb    rueidis.Client
	prefix string
	docs   int
}

func (w *world) doc(i int) string { return fmt.Sprintf("%s:doc:%d", w.prefix, i) }

// run applies one step: load, decide, commit, again on conflict. A lost reply is settled by loading again: the step is then in
// all of its documents or in none.
func (w *world) run(t *testing.T, s step) error {
	for {
		var gets rueidis.Commands
		for _, i := range s.docs {
			gets = append(gets, w.rdb.B().Get().Key(w.doc(i)).Build())
		}
		docs, seen, lost := make([][]byte, len(s.docs)), 0, false
		for i, r := range w.rdb.DoMulti(t.Context(), gets...) {
			doc, err := r.AsBytes()
			switch {
			case rueidis.IsRedisNil(err):
			case redis.Away(err):
				lost = true
			case err != nil:
				return err
			default:
				docs[i] = doc
				if slices.Contains(strings.Fields(string(doc)), s.name) {
					seen++
				}
			}
		}
		switch {
		case lost:
			continue
		case seen == len(s.docs):
			return nil // what was lost was the reply
		case seen > 0:
			return fmt.Errorf("step %s is in %d of its %d documents", s.name, seen, len(s.docs))
		}
		c := commit.New()
		for i, d := range s.docs {
			c.Expect(w.doc(d), docs[i])
			c.Set(w.doc(d), append(slices.Clone(docs[i]), (s.name+"\n")...), 0)
		}
		c.ZAdd(w.prefix+":index", float64(len(s.name)), s.name)
		c.XAdd(w.prefix+":log", 0, "step", s.name)
		c.Incr(w.prefix + ":count")
		if s.poison {
			c.SAdd(w.prefix+":count", s.name)
		}
		_, err := c.Run(t.Context(), w.rdb)
		var typ *commit.TypeError
		switch {
		case err == nil && s.poison:
			return errors.New("a poisoned step was applied")
		case err == nil, s.poison && errors.As(err, &typ):
			return nil
		case errors.Is(err, commit.ErrConflict), redis.Away(err):
		default:
			return err
		}
	}
}

// check compares what is stored with what was done: every step that is not poisoned is exactly once in each of its documents,
// in the sorted set and in the stream, and no other is anywhere.
func (w *world) check(t *testing.T, steps []step) {
	t.Helper()
	want := make(map[string][]string) // where -> names
	for _, s := range steps {
		if s.poison {
			continue
		}
		for _, d := range s.docs {
			want[w.doc(d)] = append(want[w.doc(d)], s.name)
		}
		want["index"], want["log"] = append(want["index"], s.name), append(want["log"], s.name)
	}
	got := make(map[string][]string)
	for i := range w.docs {
		text, err := w.rdb.Do(t.Context(), w.rdb.B().Get().Key(w.doc(i)).Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		got[w.doc(i)] = strings.Fields(text)
	}
	var err error
	got["index"], err = do(t, w.rdb, "ZRANGE "+w.prefix+":index 0 -1").AsStrSlice()
	testenv.Must(t, err)
	entries, err := do(t, w.rdb, "XRANGE "+w.prefix+":log - +").AsXRange()
	testenv.Must(t, err)
	for _, e := range entries {
		got["log"] = append(got["log"], e.FieldValues["step"])
	}
	for where := range maps.Keys(got) {
		slices.Sort(got[where])
		slices.Sort(want[where])
		if !slices.Equal(got[where], want[where]) {
			t.Fatalf("%s holds %v, want %v", where, got[where], want[where])
		}
	}
	count, err := do(t, w.rdb, "GET "+w.prefix+":count").AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	if int(count) != len(want["log"]) {
		t.Fatalf("count = %d, want %d", count, len(want["log"]))
	}
}

// Concurrent commits on the same documents lose no update and never apply half, also when replies are lost on the way.
func TestConcurrentCommits(t *testing.T) {
	t.Run("redis-server", func(t *testing.T) {
		env := testenv.Redis(t)
		proxy := testenv.CountingProxy(t, env.URL)
		property(t, env, env.Connect(t, redis.Options{URL: proxy.URL}), proxy)
	})
	t.Run("RESP2", func(t *testing.T) {
		env := testenv.Redis(t)
		property(t, env, env.Connect(t, redis.Options{RESP2: true}), nil)
	})
	t.Run("miniredis", func(t *testing.T) {
		env := testenv.Miniredis(t)
		property(t, env, env.Client, nil)
	})
}

func property(t *testing.T, env *testenv.RedisServer, rdb rueidis.Client, proxy *testenv.Proxy) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{rdb: rdb, prefix: env.Prefix(t), docs: rapid.IntRange(2, 3).Draw(rt, "docs")}
		writers := rapid.IntRange(2, 6).Draw(rt, "writers")
		which := rapid.Map(rapid.IntRange(1, 1<<w.docs-1), func(bits int) []int {
			var docs []int
			for i := range w.docs {
				if bits>>i&1 == 1 {
					docs = append(docs, i)
				}
			}
			return docs
		})
		var steps []step
		var all sync.WaitGroup
		errs := make(chan error, writers)
		start := make(chan struct{})
		for i := range writers {
			var mine []step
			for j := range rapid.IntRange(1, 5).Draw(rt, "steps") {
				mine = append(mine, step{
					name: fmt.Sprintf("%d/%d", i, j), docs: which.Draw(rt, "which"), poison: rapid.IntRange(0, 9).Draw(rt, "poison") == 0,
				})
			}
			steps = append(steps, mine...)
			all.Go(func() {
				<-start
				for _, s := range mine {
					if err := w.run(t, s); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		if proxy != nil {
			proxy.LoseReplies(rapid.IntRange(0, 3).Draw(rt, "lost replies"))
		}
		close(start)
		all.Wait()
		if proxy != nil {
			proxy.LoseReplies(0)
		}
		select {
		case err := <-errs:
			t.Fatal(err)
		default:
		}
		w.check(t, steps)
	})
}
