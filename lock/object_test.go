package lock_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/lock"
)

// The keys of the peers' page.
func TestKeys(t *testing.T) {
	wide := lock.Object{Type: lock.Transformation, Key: "123", Extra: []string{"extra"}}
	for _, c := range []struct {
		spec   lock.Spec
		prefix string
		want   string
	}{
		{lock.Mutex(task("MyTask")), "", "lock:mutex:task:MyTask"},
		{lock.Mutex(wide), "", "lock:mutex:transformation:123:extra"},
		{lock.Write(lock.Object{Type: lock.Transformation, Key: "42"}), "", "lock:rw:transformation:42"},
		{lock.Read(lock.Object{Type: lock.Transformation, Key: "42"}), "", "lock:rw:transformation:42"},
		{lock.Quota(task("MyTask"), 1, time.Second, 1), "", "limiter:rate:task:MyTask"},
		{lock.Slots(task("MyTask"), 1), "", "limiter:conc:task:MyTask"},
		{lock.Mutex(task("MyTask")), "site-7:", "site-7:lock:mutex:task:MyTask"},
		{lock.Mutex(lock.Object{Type: "ta:sk", Key: "50%", Extra: []string{"::"}}), "{takt}:", "{takt}:lock:mutex:ta%3Ask:50%25:%3A%3A"},
	} {
		if got := c.spec.Key(c.prefix); got != c.want {
			t.Errorf("%v: %q, want %q", c.spec, got, c.want)
		}
	}
}

// Two objects have one key only if they are the same, and the keys beside a lock are those of no other lock.
func FuzzKeysAreInjective(f *testing.F) {
	f.Add("a:b", "c", "", "a", "b:c", "")
	f.Add("a%3Ab", "c", "d", "a:b", "c", "d")
	f.Add("a", "b", ":fence", "a", "b", "fence")
	f.Fuzz(func(t *testing.T, t1, k1, e1, t2, k2, e2 string) {
		a, b := lock.Object{Type: lock.ObjectType(t1), Key: k1}, lock.Object{Type: lock.ObjectType(t2), Key: k2}
		if e1 != "" {
			a.Extra = []string{e1}
		}
		if e2 != "" {
			b.Extra = []string{e2}
		}
		x, y := lock.Mutex(a), lock.Mutex(b)
		if x.Validate() != nil || y.Validate() != nil {
			return
		}
		if (x.Key("") == y.Key("")) != cmp.Equal(a, b) {
			t.Errorf("%q and %q: %q and %q", a, b, x.Key(""), y.Key(""))
		}
		if strings.Contains(x.Key(""), "::") {
			t.Errorf("%q could be the line or the fence of another lock", x.Key(""))
		}
	})
}

// What can never be had is refused where it is declared, by field, value and rule.
func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 129)
	minute := time.Minute
	for _, c := range []struct {
		spec                  lock.Spec
		field, value, problem string
	}{
		{lock.Quota(task("a"), 3, minute, 4), "items", "4", "at most the limit 3"},
		{lock.Quota(task("a"), 3, minute, 0), "items", "0", "at least 1"},
		{lock.Quota(task("a"), -1, minute, 1), "limit", "-1", "0 (no limit)"},
		{lock.Quota(task("a"), math.MaxInt, minute, 1), "limit", "9223372036854775807", "to 1000000000"},
		{lock.Quota(task("a"), 1, -minute, 1), "window", "-1m0s", "at least 1ms"},
		{lock.Quota(task("a"), 1, time.Microsecond, 1), "window", "1µs", "at least 1ms"},
		{lock.Slots(task("a"), -1), "limit", "-1", "0 (no limit)"},
		{lock.Slots(task("a"), 1, lock.TTL(99*time.Millisecond)), "TTL", "99ms", "at least 100ms"},
		{lock.Mutex(task("a"), lock.TTL(0)), "TTL", "0s", "at least 100ms"},
		{lock.Read(task("a"), lock.TTL(-minute)), "TTL", "-1m0s", "at least 100ms"},
		{lock.Mutex(task("")), "Object.Key", `""`, "1 to 128 bytes"},
		{lock.Mutex(task(long)), "Object.Key", "(129 bytes)", "1 to 128 bytes"},
		{lock.Mutex(task("a\nb")), "Object.Key", `"a\nb"`, "control"},
		{lock.Mutex(task("\xff")), "Object.Key", `"\xff"`, "UTF-8"},
		{lock.Mutex(lock.Object{Key: "a"}), "Object.Type", `""`, "1 to 128 bytes"},
		{lock.Mutex(lock.Object{Type: lock.Job, Key: "a", Extra: []string{"b", ""}}), "Object.Extra[1]", `""`, "1 to 128 bytes"},
		{lock.Mutex(lock.Object{Type: lock.Job, Key: "a", Extra: make([]string, 9)}), "Object.Extra", "9 parts", "at most 8"},
	} {
		err := c.spec.Validate()
		var bad *lock.SpecError
		if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Value, c.value) || !strings.Contains(bad.Rule, c.problem) {
			t.Errorf("%v: %v, want %s %s %s", c.spec, err, c.field, c.value, c.problem)
		}
	}
	for _, s := range []lock.Spec{
		lock.Mutex(task(long[:128])), lock.Mutex(lock.Object{Type: lock.Job, Key: "a", Extra: []string{"1", "2", "3", "4", "5", "6", "7", "8"}}),
		lock.Write(task("a"), lock.TTL(100*time.Millisecond)), lock.Slots(task("a"), 0), lock.Quota(task("a"), 0, 0, 5), lock.Quota(task("ä"), 5, minute, 5),
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	if (lock.Spec{}).Validate() == nil {
		t.Error("the zero Spec is valid")
	}
}

func TestSpecForPeople(t *testing.T) {
	for want, s := range map[string]lock.Spec{
		"mutex task:a":                       lock.Mutex(task("a")),
		"read lock task:a":                   lock.Read(task("a")),
		"write lock task:a":                  lock.Write(task("a")),
		"concurrency task:a, 3 at a time":    lock.Slots(task("a"), 3),
		"concurrency task:a, no limit":       lock.Slots(task("a"), 0),
		"rate task:a, 3 per 1m0s":            lock.Quota(task("a"), 3, time.Minute, 1),
		"rate task:a, 3 per 1m0s, 2 at once": lock.Quota(task("a"), 3, time.Minute, 2),
		"rate task:a, no limit":              lock.Quota(task("a"), 3, 0, 2),
		"no lock":                            {},
		`mutex  (invalid: lock: Object.Key "": must have 1 to 128 bytes)`: lock.Mutex(task("")),
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if limiter := strings.HasPrefix(want, "rate") || strings.HasPrefix(want, "conc"); s.Limiter() != limiter {
			t.Errorf("%v: Limiter is %v", s, s.Limiter())
		}
	}
}

// The built-in types are there, an unknown one is refused, and one that is registered at run time is usable.
func TestTypes(t *testing.T) {
	types := lock.NewTypes()
	// A3: the built-in types are there.
	if got := types.Names(); !cmp.Equal(got, []lock.ObjectType{"job", "task", "transformation"}) {
		t.Errorf("A3: %q", got)
	}
	srv := testenv.Redis(t)
	l, err := lock.New(srv.Client, lock.Options{Prefix: srv.Prefix(t) + ":", Types: types})
	testenv.Must(t, err)
	pilot := lock.Mutex(lock.Object{Type: "pilot", Key: "a"})
	// A4: an unknown type is refused; the error lists the known ones.
	_, err = l.Try(t.Context(), []lock.Spec{pilot}, lock.TryOptions{})
	var unknown *lock.UnknownTypeError
	if !errors.As(err, &unknown) || unknown.Type != "pilot" || !strings.Contains(err.Error(), "job task transformation") {
		t.Errorf("A4: %v", err)
	}
	// A5: a type registered at run time is usable.
	testenv.Must(t, types.Add("pilot"))
	h, err := l.Try(t.Context(), []lock.Spec{pilot}, lock.TryOptions{})
	if err != nil {
		t.Fatalf("A5: %v", err)
	}
	if _, err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := types.Add("pilot"); err == nil || !strings.Contains(err.Error(), "object_test.go:") {
		t.Errorf("a second registration does not say where the first was: %v", err)
	}
	if err := types.Add("task"); err == nil || !strings.Contains(err.Error(), "built in") {
		t.Error(err)
	}
	if err := types.Add("a\x00"); err == nil {
		t.Error("a type with a control character was registered")
	}
}
