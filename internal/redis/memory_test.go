package redis_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
)

// A server that is full, or that evicts keys, is said to be so and used nevertheless: whoever makes room must be able to start.
func TestMemoryIsJudgedAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		config []string
		says   []string // nil = nothing
	}{
		"no limit":          {[]string{"maxmemory-policy allkeys-lru"}, nil},
		"enough":            {[]string{"maxmemory 1gb"}, nil},
		"full":              {[]string{"maxmemory 1"}, []string{"out of memory", "raise maxmemory"}},
		"allkeys-lru":       {[]string{"maxmemory 1gb", "maxmemory-policy allkeys-lru"}, []string{"throws keys away", "noeviction", "policy=allkeys-lru"}},
		"volatile-ttl":      {[]string{"maxmemory 1gb", "maxmemory-policy volatile-ttl"}, []string{"throws keys away", "policy=volatile-ttl"}},
		"volatile and full": {[]string{"maxmemory 1", "maxmemory-policy volatile-lru"}, []string{"policy=volatile-lru", "out of memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			srv := testenv.StartRedis(t, embedded.RedisOptions{Config: c.config})
			if _, err := connect(t, redis.Options{URL: srv.URL, Log: slog.New(slog.NewTextHandler(&said, nil))}); err != nil {
				t.Fatal(err)
			}
			if c.says == nil && said.Len() > 0 {
				t.Error(said.String())
			}
			for _, s := range append(c.says, srv.Addr) {
				if c.says != nil && !strings.Contains(said.String(), s) {
					t.Errorf("%q does not say %q", said.String(), s)
				}
			}
			if strings.Count(said.String(), "\n") > 2 {
				t.Error(said.String())
			}
		})
	}
}

// Who may not ask is connected nevertheless.
func TestMemoryIsNotTold(t *testing.T) {
	srv := testenv.StartRedis(t, embedded.RedisOptions{Config: []string{"maxmemory 1"}})
	testenv.Must(t, srv.Client.Do(t.Context(), srv.Client.B().AclSetuser().Username("blind").Rule("on", ">p", "~*", "&*", "+@all", "-info").Build()).Error())
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if _, err := connect(t, redis.Options{URL: "redis://blind:p@" + srv.Addr, Log: log}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "does not tell of its memory") || strings.Contains(said.String(), "WARN") {
		t.Error(said.String())
	}
}

func TestParseMemory(t *testing.T) {
	got := redis.ParseMemory("# Memory\r\nused_memory:12\r\nmaxmemory:34\r\nmaxmemory_policy:allkeys-lfu\r\n# Stats\r\nevicted_keys:56\r\nused_memory_human:x\r\n")
	if want := (redis.Memory{Policy: "allkeys-lfu", Max: 34, Used: 12, Evicted: 56}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := redis.ParseMemory("maxmemory:many\nnothing"); got != (redis.Memory{}) {
		t.Errorf("%+v", got)
	}
}
