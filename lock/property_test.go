package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/lock"
)

// model is who has what, by the plainest of rules and without any line; of a rate, one name for each use of 2 items.
type model map[want][]string

// want is one lock of a list, in words of the model.
type want struct{ kind, object string }

func (w want) spec() lock.Spec {
	switch w.kind {
	case "mutex":
		return lock.Mutex(task(w.object))
	case "write":
		return lock.Write(task(w.object))
	case "read":
		return lock.Read(task(w.object))
	case "slot":
		return lock.Slots(task(w.object), 2)
	}
	return lock.Quota(task(w.object), 6, time.Hour, 2)
}

func (m model) free(w want) bool {
	writers, readers := len(m[want{"write", w.object}]), len(m[want{"read", w.object}])
	switch w.kind {
	case "mutex":
		return len(m[w]) == 0
	case "write":
		return writers+readers == 0
	case "read":
		return writers == 0
	case "slot":
		return len(m[w]) < 2
	}
	return len(m[w]) < 3
}

func (m model) take(w want, owner string) { m[w] = append(m[w], owner) }

func (m model) give(w want, owner string, refund bool) {
	if w.kind != "rate" || refund {
		i := slices.Index(m[w], owner)
		m[w] = slices.Delete(m[w], i, i+1)
	}
}

// Whatever lists are tried and given back in whatever order: one is granted exactly when all of it is free, and what is stored is what is held.
func TestAgainstModel(t *testing.T) {
	e := newEnv(t)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		prefix := fmt.Sprintf("%s%d:", e.prefix, round)
		e := on(t, e.srv, e.rdb, prefix)
		m := model{}
		type holding struct {
			held  *lock.Held
			wants []want
		}
		var have []holding
		owners := 0
		fences := map[string]uint64{}
		wants := rapid.SliceOfNDistinct(rapid.Custom(func(r *rapid.T) want {
			return want{rapid.SampledFrom([]string{"mutex", "write", "read", "slot", "rate"}).Draw(r, "kind"), rapid.SampledFrom([]string{"a", "b"}).Draw(r, "object")}
		}), 1, 4, func(w want) string { return w.spec().Key("") })
		defer func() {
			for _, h := range have {
				_, _ = h.held.Release(context.Background())
			}
		}()
		r.Repeat(map[string]func(*rapid.T){
			"try": func(r *rapid.T) {
				ws := wants.Draw(r, "wants")
				owners++
				owner := fmt.Sprint("o", owners)
				var specs []lock.Spec
				for _, w := range ws {
					specs = append(specs, w.spec())
				}
				h, err := e.Try(context.Background(), specs, lock.TryOptions{Owner: owner})
				var refused *lock.HeldError
				if err != nil && !errors.As(err, &refused) {
					r.Fatal(err)
				}
				// A refused writer holds new readers off: forget that, the model knows none.
				for _, o := range []string{"a", "b"} {
					e.do("HDEL", prefix+"lock:rw:task:"+o, "writer_wait", "writer_wait_until")
				}
				free := !slices.ContainsFunc(ws, func(w want) bool { return !m.free(w) })
				if (err == nil) != free {
					r.Fatalf("%v: %v, want granted %v", ws, err, free)
				}
				if err != nil {
					return
				}
				for key, f := range h.Fences() {
					if f <= fences[key] {
						r.Fatalf("%s: fence %d after %d", key, f, fences[key])
					}
					fences[key] = f
				}
				for _, w := range ws {
					m.take(w, owner)
				}
				have = append(have, holding{h, ws})
			},
			"give": func(r *rapid.T) {
				if len(have) == 0 {
					return
				}
				i := rapid.IntRange(0, len(have)-1).Draw(r, "which")
				refund := rapid.Bool().Draw(r, "refund")
				give := have[i].held.Release
				if refund {
					give = have[i].held.Refund
				}
				if _, err := give(context.Background()); err != nil {
					r.Fatal(err)
				}
				for _, w := range have[i].wants {
					m.give(w, have[i].held.Owner(), refund)
				}
				have = slices.Delete(have, i, i+1)
			},
			"": func(r *rapid.T) {
				infos, err := e.List(context.Background(), "", 0)
				testenv.Must(r, err)
				got := map[string]string{}
				for _, i := range infos {
					for _, o := range i.Owners {
						got[strings.TrimPrefix(i.Key, prefix)+" "+o.Name] = fmt.Sprint(o.Writes)
					}
					if i.Kind == "rate" {
						got[strings.TrimPrefix(i.Key, prefix)] = fmt.Sprint(i.Used)
					}
				}
				if want := m.stored(); !maps.Equal(got, want) {
					r.Fatalf("stored %v, want %v", got, want)
				}
			},
		})
	})
}

// stored is what List should show.
func (m model) stored() map[string]string {
	all := map[string]string{}
	for w, owners := range m {
		key := w.spec().Key("")
		for _, owner := range owners {
			if w.kind == "rate" {
				all[key] = fmt.Sprint(2 * len(owners))
			} else {
				all[key+" "+owner] = fmt.Sprint(w.kind == "write")
			}
		}
	}
	return all
}
