package redisboard_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/board/redisboard"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/testenv"
)

// calls is how often the server was asked for a command since CONFIG RESETSTAT, from scripts, too.
func (w *bench) calls(command string) int {
	w.Helper()
	for line := range strings.Lines(w.do("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			n, err := strconv.Atoi(strings.Split(rest, ",")[0])
			w.must(err)
			return n
		}
	}
	return 0
}

// Each operation is one round trip, however many postings there are, and nothing is watched.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	const there = 3000
	all, err := w.b.PostBatch(w.ctx, drafts(there))
	w.must(err)
	next := 0
	free := func() *board.Posting { next++; return all[len(all)-next] }
	var c *board.Claim
	var ref string
	claimed := func() { c = w.claim(w.b, free(), board.ClaimOptions{TTL: time.Hour}) }
	trashed := func() { claimed(); ref = c.Posting().Ref; w.must(c.Trash(w.ctx)) }
	for _, op := range []struct {
		name   string
		before func()
		do     func() error
	}{
		{"post", nil, func() error { _, err := w.b.Post(w.ctx, board.Draft{Name: "n"}); return err }},
		{"post 500", nil, func() error { _, err := w.b.PostBatch(w.ctx, drafts(500)); return err }},
		{"list", nil, func() error { _, err := w.b.List(w.ctx, board.ListOptions{}); return err }},
		{"list with owners", func() { claimed(); claimed() }, func() error { _, err := w.b.List(w.ctx, board.ListOptions{}); return err }},
		{"find", nil, func() error { _, err := w.b.Find(w.ctx, all[0].Ref); return err }},
		{"state", nil, func() error { _, err := w.b.State(w.ctx, all[0]); return err }},
		{"count", nil, func() error { _, err := w.b.Count(w.ctx); return err }},
		{"claim", nil, func() (err error) {
			c, err = w.b.Claim(w.ctx, free(), "w", board.ClaimOptions{TTL: time.Hour})
			return err
		}},
		{"extend", claimed, func() error { return c.Extend(w.ctx, time.Minute) }},
		{"consume", claimed, func() error { return c.Consume(w.ctx) }},
		{"abandon", claimed, func() error { return c.Abandon(w.ctx) }},
		{"trash", claimed, func() error { return c.Trash(w.ctx) }},
		{"list the trash", nil, func() error { _, err := w.b.TrashList(w.ctx); return err }},
		{"restore", trashed, func() error { return w.b.Restore(w.ctx, ref) }},
		{"purge", trashed, func() error { return w.b.Purge(w.ctx, ref) }},
		{"entities", nil, func() error { _, err := w.b.Entities(w.ctx, ""); return err }},
	} {
		for round := range 2 { // in the first the script may be unknown
			if op.before != nil {
				op.before()
			}
			w.proxy.Reset()
			w.must(op.do())
			if n := w.proxy.Trips(); round == 1 && n != 1 {
				t.Errorf("%s: %d round trips, want 1", op.name, n)
			}
		}
	}
	for _, command := range []string{"watch", "multi", "exec"} {
		if n := w.calls(command); n != 0 {
			t.Errorf("%s was sent %d times", command, n)
		}
	}
}

// keysAre compares what is in the namespace, but for calls that are remembered for a minute at most, with "name type" in order.
func (w *bench) keysAre(want ...string) {
	w.Helper()
	all, err := w.AllKeys(w.ctx)
	w.must(err)
	var got []string
	for _, key := range all {
		rest, ok := strings.CutPrefix(key, w.namespace+":")
		if !ok {
			w.Errorf("key %q is outside the namespace %q", key, w.namespace)
		}
		typ := w.do("TYPE", key)
		if !slices.ContainsFunc(keys.BoardKeys(), func(p keys.Pattern) bool { return p.Type == typ && fits(p.Pattern, rest) }) {
			w.Errorf("key %q, a %s, is in no table", key, typ)
		}
		if strings.HasPrefix(rest, "call.") {
			ms, err := strconv.Atoi(w.do("PTTL", key))
			if err != nil || ms <= 0 || ms > 60_000 {
				w.Errorf("key %q lives for %d ms (%v)", key, ms, err)
			}
			continue
		}
		got = append(got, rest+" "+typ)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("keys are\n%q, want\n%q", got, want)
	}
}

// fits compares a key with a pattern of one name at most.
func fits(pattern, key string) bool {
	before, rest, named := strings.Cut(pattern, "{")
	if !named {
		return key == pattern
	}
	_, after, _ := strings.Cut(rest, "}")
	return len(key) > len(before)+len(after) && strings.HasPrefix(key, before) && strings.HasSuffix(key, after)
}

// After each operation there are the keys that TaskFlow has then, a few of our own, and no others.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for name, namespace := range map[string]string{"default": server.Prefix(t), "with a colon": server.Prefix(t) + ":b", "tagged": server.TaggedPrefix(t)} {
		t.Run(name, func(t *testing.T) {
			w := benchOn(t, server, namespace)
			w.walkKeys()
			w.do("FLUSHALL")
		})
	}
}

// The namespace "" has keys that begin with a colon, as in TaskFlow.
func TestKeysWithoutNamespace(t *testing.T) {
	t.Parallel()
	w := &bench{T: t, RedisServer: testenv.Redis(t), ctx: t.Context()}
	w.b, w.proxy = w.open()
	w.walkKeys()
	w.do("FLUSHALL")
}

func (w *bench) walkKeys() {
	w.Helper()
	ours := []string{"fence string", "sequence string"}
	keysAre := func(more ...string) { w.Helper(); w.keysAre(append(slices.Clone(ours), more...)...) }
	w.keysAre()
	release, err := w.b.RegisterEntity(w.ctx, board.Entity{Kind: "k", Name: "n"})
	w.must(err)
	w.keysAre("entities hash")
	w.must(release(w.ctx))
	w.keysAre()
	p := w.post("a")
	w.keysAre("listings hash", "sequence string")
	if n := w.do("GET", w.key("sequence")); n != "1" {
		w.Errorf("the counter is %q", n)
	}
	blob := w.do("HGET", w.key("listings"), p.UUID)
	head, err := redisboard.AppendHead(nil, p)
	w.must(err)
	if want := msgpack.AppendInt(head, p.Sequence); !bytes.Equal([]byte(blob), want) {
		w.Errorf("record is %x, want %x", blob, want)
	}
	owned, modified := p.Ref+".owned string", p.Ref+".last_modified string"
	modifiedNow := func() {
		w.Helper()
		at, err := redisboard.DecodeTime([]byte(w.do("GET", w.key(p.Ref+".last_modified"))))
		if d := time.Since(at); err != nil || d < -time.Minute || d > time.Minute {
			w.Errorf("last_modified is %v, %v", at, err)
		}
	}

	c := w.claim(w.b, p, board.ClaimOptions{})
	keysAre("listings hash", owned, modified, "attempts hash")
	modifiedNow()
	if owner := w.do("GET", w.key(p.Ref+".owned")); owner != c.Owner() {
		w.Errorf("owner is %q", owner)
	}
	w.must(c.Extend(w.ctx, time.Minute))
	keysAre("listings hash", owned, modified, "attempts hash")
	w.must(c.Abandon(w.ctx))
	keysAre("listings hash", modified, "attempts hash")
	modifiedNow()

	w.must(w.claim(w.b, p, board.ClaimOptions{}).Trash(w.ctx))
	keysAre("trash hash", modified)
	modifiedNow()
	if got := w.do("HGET", w.key("trash"), p.Ref); got != blob {
		w.Errorf("trashed as %x, want %x", got, blob)
	}
	w.must(w.b.Restore(w.ctx, p.Ref))
	keysAre("listings hash")
	if got := w.do("HGET", w.key("listings"), p.Ref); got != blob {
		w.Errorf("restored as %x, want %x", got, blob)
	}
	w.must(w.claim(w.b, p, board.ClaimOptions{}).Trash(w.ctx))
	w.must(w.b.Purge(w.ctx, p.Ref))
	keysAre()

	w.do("HSET", w.key("listings"), "poison", "x")
	w.must(w.b.Quarantine(w.ctx, "poison"))
	keysAre("trash hash")
	w.must(w.b.Purge(w.ctx, "poison"))

	p = w.post("b")
	w.must(w.claim(w.b, p, board.ClaimOptions{}).Consume(w.ctx))
	keysAre()
	if _, err := w.b.List(w.ctx, board.ListOptions{}); err != nil {
		w.Error(err)
	}
	keysAre()
}

// Records that others wrote survive the trash byte for byte, with the keys that nobody knows, and TaskFlow's own come out of ours as they went in.
func TestRecordsSurvive(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	record := string([]byte{0x87}) + "\xa1x\xc4\x01\xff" + "\xa8sequence\xcd\x00\x05" + "\xa4uuid\xa5field" + "\xa4name\xc0" + "\xaacreated_on\xc0" + "\xa8priority\xa3low" + "\xa7details\xde\x00\x01\xa1a\xd1\x00\x01"
	w.do("HSET", w.key("listings"), "field", record)
	p := w.first()
	if p.Ref != "field" || p.Sequence != 5 || p.Priority != board.Low || fmt.Sprint(p.Details["a"]) != "1" {
		t.Errorf("read as %+v", p)
	}
	w.must(w.claim(w.b, p, board.ClaimOptions{}).Trash(w.ctx))
	if got := w.do("HGET", w.key("trash"), "field"); got != record {
		t.Errorf("trashed as %q", got)
	}
	w.must(w.b.Restore(w.ctx, "field"))
	if got := w.do("HGET", w.key("listings"), "field"); got != record {
		t.Errorf("restored as %q", got)
	}
}
