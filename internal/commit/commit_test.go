package commit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
)

// server is one way to reach a store that commits have to work on.
type server struct {
	name string
	rdb  rueidis.Client
	env  *testenv.RedisServer
}

// servers are redis-server on RESP3 and on RESP2, and the in-process look-alike.
func servers(t *testing.T) []server {
	t.Helper()
	real, mini := testenv.Redis(t), testenv.Miniredis(t)
	return []server{
		{"RESP3", real.Client, real},
		{"RESP2", real.Connect(t, redis.Options{RESP2: true}), real},
		{"miniredis", mini.Client, mini},
	}
}

func do(t *testing.T, rdb rueidis.Client, command string) rueidis.RedisResult {
	t.Helper()
	words := strings.Fields(command)
	return rdb.Do(t.Context(), rdb.B().Arbitrary(words...).Build())
}

// dump is everything below a prefix, for comparing: key -> content as text.
func dump(t *testing.T, rdb rueidis.Client, prefix string) map[string]string {
	t.Helper()
	keys, err := do(t, rdb, "KEYS "+prefix+":*").AsStrSlice()
	testenv.Must(t, err)
	all := make(map[string]string)
	for _, key := range keys {
		typ, err := do(t, rdb, "TYPE "+key).ToString()
		testenv.Must(t, err)
		read := map[string]string{
			"string": "GET " + key, "zset": "ZRANGE " + key + " 0 -1", "set": "SMEMBERS " + key,
			"hash": "HGETALL " + key, "stream": "XRANGE " + key + " - +", "list": "LRANGE " + key + " 0 -1",
		}[typ]
		message, err := do(t, rdb, read).ToMessage()
		testenv.Must(t, err)
		all[strings.TrimPrefix(key, prefix+":")] = typ + " " + message.String()
	}
	return all
}

func TestChecks(t *testing.T) {
	binary := "\x00\xff\r\n*3\r\n{\"a\": \"é\"}"
	long := strings.Repeat("x", 100_000) // too long to be sent for comparing
	tests := []struct {
		name   string
		setup  []string // commands, with K for the key
		value  string   // SET K to this before
		expect func(c *commit.Commit, key string)
		holds  bool
		typ    bool // a *TypeError instead of a conflict
	}{
		{name: "absent", expect: func(c *commit.Commit, k string) { c.Expect(k, nil) }, holds: true},
		{name: "absent but stored", value: "x", expect: func(c *commit.Commit, k string) { c.Expect(k, nil) }},
		{name: "absent but stored empty", setup: []string{"APPEND K x", "SETRANGE K 0 y", "GETDEL K", "HSET K2 f v"}, expect: func(c *commit.Commit, k string) { c.Expect(k, nil) }, holds: true},
		{name: "same", value: "x", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte("x")) }, holds: true},
		{name: "other", value: "y", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte("x")) }},
		{name: "gone", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte("x")) }},
		{name: "binary", value: binary, expect: func(c *commit.Commit, k string) { c.Expect(k, []byte(binary)) }, holds: true},
		{name: "long", value: long, expect: func(c *commit.Commit, k string) { c.Expect(k, []byte(long)) }, holds: true},
		{name: "long, other at its end", value: long[1:] + "y", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte(long)) }},
		{name: "longer", value: long + "x", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte(long)) }},
		{name: "long, gone", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte(long)) }},
		{name: "long is a hash", setup: []string{"HSET K a b"}, expect: func(c *commit.Commit, k string) { c.Expect(k, []byte(long)) }, typ: true},
		{name: "the number of a kind of expectation", value: "4", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte("x")) }},
		{name: "empty is not absent", expect: func(c *commit.Commit, k string) { c.Expect(k, []byte{}) }},
		{name: "document is a list", setup: []string{"RPUSH K a"}, expect: func(c *commit.Commit, k string) { c.Expect(k, nil) }, typ: true},
		{name: "document is a hash", setup: []string{"HSET K a b"}, expect: func(c *commit.Commit, k string) { c.Expect(k, []byte("x")) }, typ: true},

		{name: "card of absent below 1", expect: func(c *commit.Commit, k string) { c.ExpectCard(k, 1) }, holds: true},
		{name: "card of absent below 0", expect: func(c *commit.Commit, k string) { c.ExpectCard(k, 0) }},
		{name: "card below", setup: []string{"ZADD K 1 a 2 b"}, expect: func(c *commit.Commit, k string) { c.ExpectCard(k, 3) }, holds: true},
		{name: "card at the limit", setup: []string{"ZADD K 1 a 2 b"}, expect: func(c *commit.Commit, k string) { c.ExpectCard(k, 2) }},
		{name: "card of a set", setup: []string{"SADD K a"}, expect: func(c *commit.Commit, k string) { c.ExpectCard(k, 5) }, typ: true},

		{name: "member", setup: []string{"SADD K a b"}, expect: func(c *commit.Commit, k string) { c.ExpectMember(k, "b") }, holds: true},
		{name: "no member", setup: []string{"SADD K a b"}, expect: func(c *commit.Commit, k string) { c.ExpectMember(k, "c") }},
		{name: "member of absent", expect: func(c *commit.Commit, k string) { c.ExpectMember(k, "c") }},
		{name: "member of a zset", setup: []string{"ZADD K 1 a"}, expect: func(c *commit.Commit, k string) { c.ExpectMember(k, "a") }, typ: true},

		{name: "field", setup: []string{"HSET K f v"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", []byte("v")) }, holds: true},
		{name: "field other", setup: []string{"HSET K f w"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", []byte("v")) }},
		{name: "field absent", setup: []string{"HSET K g v"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", nil) }, holds: true},
		{name: "field absent in no hash", expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", nil) }, holds: true},
		{name: "field not absent", setup: []string{"HSET K f v"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", nil) }},
		{name: "field that reads like absent", setup: []string{"HSET K f -"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", nil) }},
		{name: "field is the sign for absent", setup: []string{"HSET K f -"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", []byte("-")) }, holds: true},
		{name: "field empty is not absent", setup: []string{"HSET K f v", "HDEL K f"}, expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", []byte{}) }},
		{name: "field of a string", value: "x", expect: func(c *commit.Commit, k string) { c.ExpectField(k, "f", nil) }, typ: true},
	}
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					prefix := s.env.Prefix(t)
					key, other := prefix+":key", prefix+":written"
					for _, command := range test.setup {
						command = strings.NewReplacer("K2", prefix+":k2", "K", key).Replace(command)
						if err := do(t, s.rdb, command).Error(); err != nil {
							t.Fatal(command, err)
						}
					}
					if test.value != "" {
						testenv.Must(t, s.rdb.Do(t.Context(), s.rdb.B().Set().Key(key).Value(test.value).Build()).Error())
					}
					c := commit.New()
					test.expect(c, key)
					c.Set(other, []byte("1"), 0)
					_, err := c.Run(t.Context(), s.rdb)
					var conflict *commit.ConflictError
					var typ *commit.TypeError
					switch {
					case test.holds && err != nil:
						t.Fatalf("err = %v, want it applied", err)
					case !test.holds && test.typ && (!errors.As(err, &typ) || typ.Key != key):
						t.Fatalf("err = %v, want a TypeError for %s", err, key)
					case !test.holds && !test.typ && (!errors.Is(err, commit.ErrConflict) || !errors.As(err, &conflict) || conflict.Key != key):
						t.Fatalf("err = %v, want a conflict on %s", err, key)
					}
					written, err := do(t, s.rdb, "EXISTS "+other).AsBool()
					testenv.Must(t, err)
					if written != test.holds {
						t.Errorf("written = %v", written)
					}
				})
			}
		})
	}
}

// An empty document is not an absent one: nothing else could tell a job order cut to nothing from one never stored.
func TestEmptyDocument(t *testing.T) {
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			key := s.env.Prefix(t) + ":doc"
			c := commit.New()
			c.Expect(key, nil)
			c.Set(key, []byte{}, 0)
			if _, err := c.Run(t.Context(), s.rdb); err != nil {
				t.Fatal(err)
			}
			c = commit.New()
			c.Expect(key, nil)
			c.Set(key, []byte("wrong"), 0)
			if _, err := c.Run(t.Context(), s.rdb); !errors.Is(err, commit.ErrConflict) {
				t.Fatalf("err = %v, want a conflict", err)
			}
			c = commit.New()
			c.Expect(key, []byte{})
			c.Set(key, []byte("right"), 0)
			if _, err := c.Run(t.Context(), s.rdb); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestWrites(t *testing.T) {
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			prefix := s.env.Prefix(t)
			k := func(name string) string { return prefix + ":" + name }
			for _, command := range []string{
				"SET " + k("del") + " x", "RPUSH " + k("del-list") + " a", "SET " + k("keep") + " x",
				"ZADD " + k("z") + " 1 a 2 b", "SADD " + k("s") + " a b", "HSET " + k("h") + " a 1 b 2",
				"SET " + k("n") + " -1", "XGROUP CREATE " + k("x") + " g $ MKSTREAM",
			} {
				if err := do(t, s.rdb, command).Error(); err != nil {
					t.Fatal(command, err)
				}
			}
			add := func() string {
				id, err := do(t, s.rdb, "XADD "+k("x")+" * a 1").ToString()
				testenv.Must(t, err)
				return id
			}
			acked := add()
			testenv.Must(t, do(t, s.rdb, "XREADGROUP GROUP g me STREAMS "+k("x")+" >").Error())
			binary := "\x00\xff\r\n \"é\""
			c := commit.New()
			if !c.Empty() {
				t.Error("a new commit is not empty")
			}
			c.Set(k("doc"), []byte(binary), 0)
			c.Set(k("ttl"), []byte("v"), time.Hour)
			c.Del(k("del"))
			c.Del(k("del-list"))
			c.Del(k("never"))
			c.Expire(k("keep"), 30*time.Minute)
			c.Expire(k("never"), time.Minute)
			c.ZAdd(k("z"), -2.5, "c")
			c.ZAdd(k("z"), 1e15, "a")
			c.ZRem(k("z"), "b")
			c.SAdd(k("s"), "c")
			c.SRem(k("s"), "a")
			c.HSet(k("h"), "c", []byte(binary))
			c.HDel(k("h"), "a")
			c.Incr(k("n"))
			c.Incr(k("n"))
			c.Incr(k("new"))
			c.XAdd(k("log"), 5000, "field", binary, "other", "2")
			c.XAdd(k("work"), 0, "a", "b")
			c.XAck(k("x"), "g", acked)
			c.XDel(k("x"), acked)
			if c.Empty() {
				t.Error("a commit with writes is empty")
			}
			result, err := c.Run(t.Context(), s.rdb)
			testenv.Must(t, err)
			if len(result.IDs) != 2 || !strings.Contains(result.IDs[0], "-") {
				t.Errorf("ids = %q, want those of two entries", result.IDs)
			}
			for command, want := range map[string]string{
				"GET " + k("doc"): binary, "GET " + k("n"): "1", "GET " + k("new"): "1", "HGET " + k("h") + " c": binary,
			} {
				if got, err := do(t, s.rdb, command).ToString(); err != nil || got != want {
					t.Errorf("%s = %q, %v, want %q", command, got, err, want)
				}
			}
			for command, want := range map[string]int64{
				"EXISTS " + k("del") + " " + k("del-list") + " " + k("never"): 0,
				"TTL " + k("ttl"): 3600, "TTL " + k("keep"): 1800, "TTL " + k("doc"): -1,
				"SCARD " + k("s"): 2, "SISMEMBER " + k("s") + " c": 1, "SISMEMBER " + k("s") + " a": 0,
				"HLEN " + k("h"): 2, "HEXISTS " + k("h") + " a": 0,
				"XLEN " + k("log"): 1, "XLEN " + k("work"): 1, "XLEN " + k("x"): 0,
			} {
				if got, err := do(t, s.rdb, command).AsInt64(); err != nil || got != want && !(want > 60 && got < want && got > want-60) { // a busy machine looks late
					t.Errorf("%s = %d, %v, want %d", command, got, err, want)
				}
			}
			scores, err := do(t, s.rdb, "ZRANGE "+k("z")+" 0 -1 WITHSCORES").AsZScores()
			if want := []rueidis.ZScore{{Member: "c", Score: -2.5}, {Member: "a", Score: 1e15}}; err != nil || cmp.Diff(want, scores) != "" {
				t.Errorf("zset: %v %s", err, cmp.Diff(want, scores))
			}
			entries, err := do(t, s.rdb, "XRANGE "+k("log")+" - +").AsXRange()
			if err != nil || entries[0].ID != result.IDs[0] || entries[0].FieldValues["field"] != binary {
				t.Errorf("entries = %v, %v", entries, err)
			}
			pending, err := do(t, s.rdb, "XPENDING "+k("x")+" g").ToArray()
			if n, _ := pending[0].AsInt64(); err != nil || n != 0 {
				t.Errorf("pending = %v, %v", pending, err)
			}
		})
	}
}

// Whatever Redis would refuse in the middle of the script is found before the first write, for Redis does not take back
// what a failing script wrote.
func TestRefusedBeforeTheFirstWrite(t *testing.T) {
	tests := []struct {
		name  string
		setup string
		write func(c *commit.Commit, key string)
	}{
		{"SET on a list", "RPUSH K a", func(c *commit.Commit, k string) { c.Set(k, nil, 0) }},
		{"ZADD on a string", "SET K a", func(c *commit.Commit, k string) { c.ZAdd(k, 1, "a") }},
		{"ZREM on a set", "SADD K a", func(c *commit.Commit, k string) { c.ZRem(k, "a") }},
		{"SADD on a zset", "ZADD K 1 a", func(c *commit.Commit, k string) { c.SAdd(k, "a") }},
		{"SREM on a hash", "HSET K a b", func(c *commit.Commit, k string) { c.SRem(k, "a") }},
		{"HSET on a string", "SET K a", func(c *commit.Commit, k string) { c.HSet(k, "a", nil) }},
		{"HDEL on a stream", "XADD K * a b", func(c *commit.Commit, k string) { c.HDel(k, "a") }},
		{"XADD on a string", "SET K a", func(c *commit.Commit, k string) { c.XAdd(k, 0, "a", "b") }},
		{"XACK on a string", "SET K a", func(c *commit.Commit, k string) { c.XAck(k, "g", "1-1") }},
		{"XDEL on a string", "SET K a", func(c *commit.Commit, k string) { c.XDel(k, "1-1") }},
		{"INCR on a set", "SADD K a", func(c *commit.Commit, k string) { c.Incr(k) }},
		{"INCR of text", "SET K twelve", func(c *commit.Commit, k string) { c.Incr(k) }},
		{"INCR of a fraction", "SET K 1.5", func(c *commit.Commit, k string) { c.Incr(k) }},
		{"INCR of a number with a leading zero", "SET K 007", func(c *commit.Commit, k string) { c.Incr(k) }},
		{"INCR of the largest number", "SET K 9223372036854775807", func(c *commit.Commit, k string) { c.Incr(k) }},
		{"two types for one new key", "PING", func(c *commit.Commit, k string) { c.SAdd(k, "a"); c.ZAdd(k, 1, "a") }},
		{"a list stays a list until it is deleted", "RPUSH K a", func(c *commit.Commit, k string) { c.SAdd(k, "a"); c.Del(k) }},
		{"score that is not a number", "PING", func(c *commit.Commit, k string) { c.ZAdd(k, math.NaN(), "a") }},
		{"half a field", "PING", func(c *commit.Commit, k string) { c.XAdd(k, 0, "a", "b", "c") }},
		{"no field", "PING", func(c *commit.Commit, k string) { c.XAdd(k, 0) }},
	}
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					prefix := s.env.Prefix(t)
					if err := do(t, s.rdb, strings.ReplaceAll(test.setup, "K", prefix+":key")).Error(); err != nil && test.setup != "PING" {
						t.Fatal(err)
					}
					before := dump(t, s.rdb, prefix)
					c := commit.New()
					c.Set(prefix+":first", []byte("1"), 0)
					c.XAdd(prefix+":second", 0, "a", "b")
					test.write(c, prefix+":key")
					if _, err := c.Run(t.Context(), s.rdb); err == nil || errors.Is(err, commit.ErrConflict) {
						t.Fatalf("err = %v, want a refusal", err)
					}
					if diff := cmp.Diff(before, dump(t, s.rdb, prefix)); diff != "" {
						t.Errorf("something was written:\n%s", diff)
					}
				})
			}
		})
	}
}

func TestDeletedKeyTakesAnotherType(t *testing.T) {
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			key := s.env.Prefix(t) + ":key"
			testenv.Must(t, do(t, s.rdb, "RPUSH "+key+" a").Error())
			c := commit.New()
			c.Del(key)
			c.SAdd(key, "b")
			if _, err := c.Run(t.Context(), s.rdb); err != nil {
				t.Fatal(err)
			}
			if typ, _ := do(t, s.rdb, "TYPE "+key).ToString(); typ != "set" {
				t.Errorf("type = %s", typ)
			}
		})
	}
}

// A commit of more keys, writes and arguments than fit in one byte, or in what Lua takes at once: it is whole, and what it expects is looked at to the last.
func TestManyKeys(t *testing.T) {
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			const n = 2500
			prefix := s.env.Prefix(t)
			k := func(kind string, i int) string { return fmt.Sprintf("%s:%s:%d", prefix, kind, i) }
			fill := func(c *commit.Commit) {
				words := make([]string, 600)
				for i := range words {
					words[i] = fmt.Sprint(i)
				}
				for i := range n {
					c.Set(k("doc", i), []byte(fmt.Sprint("doc ", i)), 0)
					c.ZAdd(k("list", i%300), float64(i), fmt.Sprint("member ", i))
				}
				c.XAdd(prefix+":log", 0, words...)
				c.XAdd(prefix+":work", 0, "a", "b")
			}
			c := commit.New()
			for i := range n {
				c.Expect(k("doc", i), nil)
			}
			fill(c)
			if _, err := c.Run(t.Context(), s.rdb); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if got, err := do(t, s.rdb, "GET "+k("doc", i)).ToString(); err != nil || got != fmt.Sprint("doc ", i) {
					t.Fatalf("document %d = %q, %v", i, got, err)
				}
				if score, err := do(t, s.rdb, fmt.Sprintf("ZCOUNT %s %d %d", k("list", i%300), i, i)).AsInt64(); err != nil || score != 1 {
					t.Fatalf("%d members with score %d, %v", score, i, err)
				}
			}
			entries, err := do(t, s.rdb, "XRANGE "+prefix+":log - +").AsXRange()
			if err != nil || len(entries) != 1 || len(entries[0].FieldValues) != 300 || entries[0].FieldValues["598"] != "599" {
				t.Errorf("entries = %v, %v", entries, err)
			}
			before := dump(t, s.rdb, prefix)
			c = commit.New()
			for i := range n {
				read := []byte(fmt.Sprint("doc ", i))
				if i == n-1 {
					read = []byte("another")
				}
				c.Expect(k("doc", i), read)
			}
			fill(c)
			var conflict *commit.ConflictError
			if _, err := c.Run(t.Context(), s.rdb); !errors.As(err, &conflict) || conflict.Key != k("doc", n-1) {
				t.Errorf("err = %v, want a conflict on the last document", err)
			}
			if diff := cmp.Diff(before, dump(t, s.rdb, prefix)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

// The ids of entries are in the order of XAdd, whichever write goes first to find out about a type.
func TestOrderOfIDs(t *testing.T) {
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			prefix := s.env.Prefix(t)
			testenv.Must(t, do(t, s.rdb, "XADD "+prefix+":b 9999999999999-5 n 0").Error())
			c := commit.New()
			c.Del(prefix + ":a")
			a, b := c.XAdd(prefix+":a", 0, "n", "1"), c.XAdd(prefix+":b", 0, "n", "2")
			result, err := c.Run(t.Context(), s.rdb)
			testenv.Must(t, err)
			if got := result.IDs[b]; got != "9999999999999-6" || result.IDs[a] == got {
				t.Errorf("ids = %q, want that of b second", result.IDs)
			}
		})
	}
}

// An entry that no decision reads may fail alone: all else is written, and its id is empty. A stream that is copied keeps its entries, and one that is not there stays absent.
func TestEntriesThatMayFailAlone(t *testing.T) {
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			prefix := s.env.Prefix(t)
			k := func(name string) string { return prefix + ":" + name }
			run := func() string {
				t.Helper()
				c := commit.New()
				first := c.XAdd(k("work"), 0, "a", "b")
				c.Set(k("doc"), []byte("x"), 0)
				note := c.XAddNote(k("note"), "a", "b")
				c.Tighten(k("note"), k("copy"))
				c.Tighten(k("absent"), k("copy"))
				c.Expire(k("note"), time.Hour)
				result, err := c.Run(t.Context(), s.rdb)
				if err != nil || result.IDs[first] == "" {
					t.Fatal(result, err)
				}
				return result.IDs[note]
			}
			if run() == "" {
				t.Error("the entry has no id")
			}
			if got := slices.Sorted(maps.Keys(dump(t, s.rdb, prefix))); !slices.Equal(got, []string{"doc", "note", "work"}) {
				t.Errorf("there are %v", got)
			}
			if n, err := do(t, s.rdb, "XLEN "+k("note")).AsInt64(); err != nil || n != 1 {
				t.Errorf("%d entries after the copy, %v", n, err)
			}
			testenv.Must(t, do(t, s.rdb, "SET "+k("note")+" text").Error())
			if id := run(); id != "" {
				t.Errorf("the entry of a string has the id %s", id)
			}
			if n, err := do(t, s.rdb, "XLEN "+k("work")).AsInt64(); err != nil || n != 2 {
				t.Errorf("%d entries of the others, %v", n, err)
			}
		})
	}
}

// What two bytes cannot number is refused, and not sent.
func TestTooManyKeys(t *testing.T) {
	env := testenv.Redis(t)
	prefix := env.Prefix(t)
	c := commit.New()
	for i := range 1 << 16 {
		c.Set(fmt.Sprintf("%s:%d", prefix, i), nil, 0)
	}
	if _, err := c.Run(t.Context(), env.Client); err == nil || !strings.Contains(err.Error(), "65536 keys, writes or arguments of one: at most 65535") {
		t.Errorf("err = %v", err)
	}
	if n, err := do(t, env.Client, "DBSIZE").AsInt64(); err != nil || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestOneRoundTrip(t *testing.T) {
	env := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, env.URL)
	rdb := env.Connect(t, redis.Options{URL: proxy.URL})
	key := env.Prefix(t) + ":n"
	for i := range 3 {
		proxy.Reset()
		c := commit.New()
		c.Incr(key)
		c.XAdd(key+":log", 0, "a", "b")
		if _, err := c.Run(t.Context(), rdb); err != nil {
			t.Fatal(err)
		}
		if got := proxy.Trips(); i > 0 && got != 1 {
			t.Errorf("%d round trips, want 1", got)
		}
	}
}

func TestCancelled(t *testing.T) {
	env := testenv.Redis(t)
	key := env.Prefix(t) + ":n"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := commit.New()
	c.Incr(key)
	if _, err := c.Run(ctx, env.Client); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func BenchmarkCommit(b *testing.B) {
	env := testenv.Redis(b)
	prefix := env.Prefix(b)
	doc := []byte(strings.Repeat("x", 1000))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := commit.New()
			c.Set(prefix+":doc", doc, 0)
			c.ZAdd(prefix+":list", 1, "a")
			c.XAdd(prefix+":log", 100, "a", "b")
			if _, err := c.Run(b.Context(), env.Client); err != nil {
				b.Error(err)
			}
		}
	})
}

// Whatever becomes of the type of any key that a commit writes, between it and the one before: nothing is half written.
func TestTypeOfAnyKeyChanges(t *testing.T) {
	others := map[string]string{
		"string": "SET K a", "list": "RPUSH K a", "zset": "ZADD K 1 a", "set": "SADD K a", "hash": "HSET K a b", "stream": "XADD K * a b",
	}
	types := map[string]string{
		"order": "string", "execution": "string", "command": "string", "count": "string", "list": "zset", "timers": "zset",
		"active": "set", "dirty": "set", "index": "hash", "changes": "stream", "all-changes": "stream", "work": "stream",
	}
	for _, s := range servers(t) {
		t.Run(s.name, func(t *testing.T) {
			for changed, typ := range types {
				for other, command := range others {
					if other == typ {
						continue
					}
					t.Run(changed+" becomes a "+other, func(t *testing.T) {
						prefix := s.env.Prefix(t)
						k := func(name string) string { return prefix + ":" + name }
						var order []byte
						run := func(text string) error {
							c := commit.New()
							c.Expect(k("order"), order)
							c.ExpectCard(k("list"), 10)
							c.Set(k("order"), []byte(text), 0)
							c.Set(k("execution"), []byte(text), 0)
							c.Set(k("command"), []byte(text), time.Hour)
							c.Incr(k("count"))
							c.ZAdd(k("list"), 1, text)
							c.ZAdd(k("timers"), 1, text)
							c.SAdd(k("active"), text)
							c.SAdd(k("dirty"), text)
							c.HSet(k("index"), text, []byte(text))
							c.XAdd(k("changes"), 0, "a", text)
							c.XAdd(k("all-changes"), 100, "a", text)
							c.XAck(k("work"), "g", "1-1")
							c.XAdd(k("work"), 0, "a", text)
							order = []byte(text)
							_, err := c.Run(t.Context(), s.rdb)
							return err
						}
						testenv.Must(t, run("one"))
						for _, command := range []string{"DEL K", command} {
							testenv.Must(t, do(t, s.rdb, strings.ReplaceAll(command, "K", k(changed))).Error())
						}
						before := dump(t, s.rdb, prefix)
						err := run("two")
						var wrong *commit.TypeError
						if !errors.As(err, &wrong) || *wrong != (commit.TypeError{Key: k(changed), Want: typ, Have: other}) {
							t.Errorf("%v, want that %s is a %s", err, changed, other)
						}
						if diff := cmp.Diff(before, dump(t, s.rdb, prefix)); diff != "" {
							t.Errorf("something was written:\n%s", diff)
						}
					})
				}
			}
		})
	}
}

// A right that is missing is not taken for another type: what may be given back is not final.
func TestMissingRightIsNoType(t *testing.T) {
	env := testenv.Redis(t)
	prefix := env.Prefix(t)
	for denied, write := range map[string]func(c *commit.Commit, k string){
		"zcard":     func(c *commit.Commit, k string) { c.ExpectCard(k, 5); c.ZAdd(k, 1, "a") },
		"sismember": func(c *commit.Commit, k string) { c.ExpectMember(k, "a"); c.SAdd(k, "a") },
		"hget":      func(c *commit.Commit, k string) { c.ExpectField(k, "a", nil); c.HSet(k, "a", nil) },
		"hset":      func(c *commit.Commit, k string) { c.HSet(k, "a", nil) },
	} {
		user := "no-" + denied
		testenv.Must(t, do(t, env.Client, "ACL SETUSER "+user+" on >secret ~* &* +@all -"+denied).Error())
		rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{env.Addr}, Username: user, Password: "secret"})
		testenv.Must(t, err)
		t.Cleanup(rdb.Close)
		key := prefix + ":" + denied
		run := func(rdb rueidis.Client) error {
			c := commit.New()
			write(c, key)
			_, err := c.Run(t.Context(), rdb)
			return err
		}
		var typ *commit.TypeError
		if err := run(rdb); err == nil || errors.As(err, &typ) || errors.Is(err, commit.ErrConflict) {
			t.Errorf("without %s, no key: %v", denied, err)
		}
		if n, _ := do(t, env.Client, "EXISTS "+key).AsInt64(); n != 0 {
			t.Errorf("without %s: it was written", denied)
		}
		// A key of the right type is no reason either.
		commands := map[string]string{"zcard": "ZADD %s 1 b", "sismember": "SADD %s b", "hget": "HSET %s b c", "hset": "HSET %s b c"}
		testenv.Must(t, do(t, env.Client, fmt.Sprintf(commands[denied], key)).Error())
		if err := run(rdb); err == nil || errors.As(err, &typ) || errors.Is(err, commit.ErrConflict) {
			t.Errorf("without %s, with the key: %v", denied, err)
		}
	}
}

// Whichever command the user may not run, or key he may not write: the commit says so, writes nothing, and is applied once the right is back.
func TestAnyRightWithdrawn(t *testing.T) {
	env := testenv.Redis(t)
	writes := map[string]func(c *commit.Commit, k string){
		"set": func(c *commit.Commit, k string) { c.Set(k, []byte("a"), time.Hour) }, "del": func(c *commit.Commit, k string) { c.Del(k) },
		"pexpire": func(c *commit.Commit, k string) { c.Expire(k, time.Hour) },
		"zadd":    func(c *commit.Commit, k string) { c.ZAdd(k, 1, "a") }, "zrem": func(c *commit.Commit, k string) { c.ZRem(k, "b") },
		"sadd": func(c *commit.Commit, k string) { c.SAdd(k, "a") }, "srem": func(c *commit.Commit, k string) { c.SRem(k, "b") },
		"hset": func(c *commit.Commit, k string) { c.HSet(k, "a", nil) }, "hdel": func(c *commit.Commit, k string) { c.HDel(k, "b") },
		"incr": func(c *commit.Commit, k string) { c.Incr(k) },
		"xadd": func(c *commit.Commit, k string) { c.XAdd(k, 100, "a", "b") }, "xack": func(c *commit.Commit, k string) { c.XAck(k, "g", "1-1") },
		"xdel": func(c *commit.Commit, k string) { c.XDel(k, "1-1") },
	}
	allow := func(rights string) {
		t.Helper()
		testenv.Must(t, do(t, env.Client, "ACL SETUSER writer on >secret &* resetkeys "+rights).Error())
	}
	allow("~* +@all")
	rdb := env.Connect(t, redis.Options{Username: "writer", Password: "secret", Prefix: env.Prefix(t)})
	for lacking := range writes {
		for _, what := range []string{"command", "key"} {
			t.Run(what+" of "+lacking, func(t *testing.T) {
				prefix := env.Prefix(t)
				rights := "~* +@all -" + lacking
				if what == "key" {
					rights = "+@all %R~*"
					for name := range writes {
						if name != lacking {
							rights += " ~" + prefix + ":" + name
						}
					}
				}
				for _, command := range []string{"XADD K:xdel 1-1 a b", "SADD K:srem b c", "HSET K:hdel b c d e", "ZADD K:zrem 1 b 2 c", "SET K:del a", "SET K:pexpire a"} {
					testenv.Must(t, do(t, env.Client, strings.ReplaceAll(command, "K", prefix)).Error())
				}
				allow(rights)
				run := func() error {
					c := commit.New()
					for name, write := range writes {
						write(c, prefix+":"+name)
					}
					_, err := c.Run(t.Context(), rdb)
					return err
				}
				before := dump(t, env.Client, prefix)
				if err := run(); !redis.Waits(err) || !redis.Denied(err) || what == "command" && !strings.Contains(err.Error(), "NOPERM this user may not run "+strings.ToUpper(lacking)) {
					t.Errorf("%v, want that it is denied", err)
				}
				after := dump(t, env.Client, prefix)
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("something was written:\n%s", diff)
				}
				allow("~* +@all")
				if err := run(); err != nil {
					t.Errorf("the right is back: %v", err)
				}
			})
		}
	}
}
