package task

import (
	"context"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/testenv"
)

// scripts calls the scripts of the scheduler by hand.
type scripts struct {
	t   *testing.T
	srv *testenv.RedisServer
	k   keys.Keys
}

func newScripts(t *testing.T) *scripts {
	srv := testenv.Redis(t)
	return &scripts{t, srv, keys.New(srv.Prefix(t))}
}

func (s *scripts) do(args ...string) string {
	s.t.Helper()
	b, err := s.srv.Client.Do(context.Background(), s.srv.Client.B().Arbitrary(args...).Build()).ToAny()
	if err != nil && !strings.Contains(err.Error(), "nil") {
		s.t.Fatalf("%q: %v", args, err)
	}
	return replyText(b)
}

func replyText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return string('0' + rune(v)) // they are small
	}
	return ""
}

func (s *scripts) run(sc *script.Script, keys []string, args ...string) (words []string, err error) {
	s.t.Helper()
	reply, err := sc.Run(context.Background(), s.srv.Client, keys, args...).ToAny()
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		list = []any{reply}
	}
	for _, v := range list {
		words = append(words, replyText(v))
	}
	return words, nil
}

// The lock has one holder, each election a higher term, and only the holder keeps it or gives it back.
func TestLeadScript(t *testing.T) {
	s := newScripts(t)
	ks := []string{s.k.SchedulerLock(), s.k.SchedulerTerm()}
	call := func(want string, args ...string) {
		t.Helper()
		if got, err := s.run(leadScript, ks, append(args, s.k.SchedulerEntries())...); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
	call("1 1", "take", "a", "60000", "0")
	call("1 2", "take", "a", "60000", "0") // the reply was lost
	call("0 0", "keep", "a", "60000", "1") // an older term
	call("1 2", "keep", "a", "60000", "2")
	call("0 0", "keep", "b", "60000", "2")
	call("0 0", "give", "b", "0", "2")
	if got, err := s.run(leadScript, ks, "take", "b", "60000", "0", "c"); err != nil || got[0] != "0" {
		t.Errorf("taken from its holder: %q, %v", got, err)
	}
	call("1 2", "give", "a", "0", "2")
	call("0 0", "give", "a", "0", "2")
	call("0 0", "keep", "a", "60000", "2")
	call("1 3", "take", "b", "60000", "0")
	s.do("DEL", ks[0], ks[1])
	call("1 4", "take", "b", "60000", "3") // Redis has forgotten, the caller has not
	s.do("SET", ks[0], "python")
	if got, err := s.run(leadScript, ks, "take", "b", "60000", "0", "c"); err != nil || got[0] != "0" {
		t.Errorf("taken from one without a time to live: %q, %v", got, err)
	}
}

// What an older leader wants, or one who decided on an older entry, is not written.
func TestFireScript(t *testing.T) {
	s := newScripts(t)
	entries, stream, key := s.k.SchedulerEntries(), s.k.TaskStream("normal:medium"), s.k.TaskUnique("_schedule:n")
	ks := []string{s.k.SchedulerLock(), s.k.SchedulerTerm(), entries, stream, key}
	plain := []string{ks[0], ks[1], entries, entries, entries}
	s.do("SET", ks[0], "a")
	s.do("SET", ks[1], "7")
	call := func(want string, keys []string, args ...string) {
		t.Helper()
		got, err := s.run(fireScript, keys, args...)
		if err != nil && strings.Contains(err.Error(), want) {
			return
		}
		if err != nil || len(got) == 0 || got[0] != want {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
	state := func(doc, xlen, holder string) {
		t.Helper()
		if d, n, h := s.do("HGET", entries, "n"), s.do("XLEN", stream), s.do("GET", key); d != doc || n != xlen || h != holder {
			t.Errorf("entry %q, %s tasks, key of %q; want %q, %s, %q", d, n, h, doc, xlen, holder)
		}
	}
	call("lost", plain, "b", "7", "n", "", "one", "", "0", "", "")
	call("lost", plain, "a", "6", "n", "", "one", "", "0", "", "")
	state("", "0", "")
	call("ok", plain, "a", "7", "n", "", "one", "", "0", "", "")
	call("conflict", plain, "a", "7", "n", "", "one", "", "0", "", "")
	call("conflict", plain, "a", "7", "n", sha1hex("two"), "one", "", "0", "", "")
	state("one", "0", "")
	fire := []string{"a", "7", "n", sha1hex("one"), "two", "skip", "60000", "", "n@1", "message", "another"}
	call("ok", ks, fire...)
	state("two", "2", "n@1")
	call("conflict", ks, fire...)
	state("two", "2", "n@1")
	again := []string{"a", "7", "n", sha1hex("two"), "three", "skipped", "60000", "", "n@2", "message"}
	call("skipped", ks, again...)
	state("skipped", "2", "n@1")
	s.do("DEL", stream, key)
	s.do("SET", stream, "no stream")
	again[3] = sha1hex("skipped")
	call("WRONGTYPE", ks, again...)
	s.do("DEL", stream)
	s.do("LPUSH", key, "no string")
	call("WRONGTYPE", ks, again...)
	s.do("DEL", key)
	state("skipped", "0", "")
	call("ok", ks, again...)
	state("three", "1", "n@2")
	call("ok", plain, "a", "7", "n", sha1hex("three"), "", "", "0", "", "")
	state("", "1", "n@2")
}

func TestSwapScript(t *testing.T) {
	s := newScripts(t)
	ks := []string{s.k.SchedulerEntries()}
	for _, c := range []struct{ want, read, text, left string }{
		{"1", "", "one", "one"}, {"0", "", "two", "one"}, {"0", sha1hex("x"), "two", "one"}, {"1", sha1hex("one"), "two", "two"},
		{"0", sha1hex("one"), "", "two"}, {"1", sha1hex("two"), "", ""}, {"0", sha1hex("two"), "", ""},
	} {
		got, err := s.run(swapScript, ks, "n", c.read, c.text, ks[0])
		if err != nil || got[0] != c.want || s.do("HGET", ks[0], "n") != c.left {
			t.Errorf("%+v: %q, %v, %q is left", c, got, err, s.do("HGET", ks[0], "n"))
		}
	}
}
