package redis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]target{
		"redis://localhost":                     {network: "tcp", addrs: []string{"localhost:6379"}},
		"valkey://":                             {network: "tcp", addrs: []string{"localhost:6379"}},
		"redis://u:p%2F%40@h:1/2":               {network: "tcp", addrs: []string{"h:1"}, user: "u", pass: "p/@", db: 2},
		"redis://:p@h?db=3":                     {network: "tcp", addrs: []string{"h:6379"}, pass: "p", db: 3},
		"rediss://a:1,b:2,c":                    {network: "tcp", addrs: []string{"a:1", "b:2", "c:6379"}, tls: true},
		"redis://[::1]:7/":                      {network: "tcp", addrs: []string{"[::1]:7"}},
		"redis://[::1]":                         {network: "tcp", addrs: []string{"[::1]:6379"}},
		"redis+sentinel://u:p@s1,s2:5/master/4": {network: "tcp", addrs: []string{"s1:26379", "s2:5"}, user: "u", pass: "p", master: "master", db: 4},
		"rediss+sentinel://s/m":                 {network: "tcp", addrs: []string{"s:26379"}, master: "m", tls: true},
		"unix:///run/redis/redis.sock?db=1":     {network: "unix", addrs: []string{"/run/redis/redis.sock"}, db: 1},
		" redis://h ":                           {network: "tcp", addrs: []string{"h:6379"}},
		"redis://user:pa:ss@h":                  {network: "tcp", addrs: []string{"h:6379"}, user: "user", pass: "pa:ss"},
		"redis://user:p@ss@h":                   {network: "tcp", addrs: []string{"h:6379"}, user: "user", pass: "p@ss"},
		"REDIS://h":                             {network: "tcp", addrs: []string{"h:6379"}},
		"valkeys://h":                           {network: "tcp", addrs: []string{"h:6379"}, tls: true},
	} {
		got, err := parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(target{})); d != "" {
			t.Errorf("%s: %s", raw, d)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "localhost:6379", "http://:hunter2@h", "redis://u:hunter2/x@h", "redis://:hunter2@h:port", "redis://:hunter2@h:0", "redis://:hunter2@h:99999", "redis://:hunter2%zz@h",
		"redis://:hunter2@h/one", "redis://:hunter2@h/-1", "redis+sentinel://:hunter2@h", "redis://:hunter2@h?db=%zz", "redis://hunter2:%zz@h", "redis://h/1/hunter2@",
		"redis://h/0?prefix=hunter2", "redis://h?db=1&hunter2=1", "unix:///s?hunter2",
	} {
		got, err := parse(raw)
		if err == nil {
			t.Errorf("%q: %+v", raw, got)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the password is in %q", raw, err)
		}
		if strings.Contains(err.Error(), "1 to 65535") != (strings.HasPrefix(raw, "redis://:hunter2@h:")) {
			t.Errorf("%q: %q", raw, err)
		}
		if !strings.Contains(err.Error(), "redis://") && !strings.Contains(err.Error(), "redis+sentinel://") {
			t.Errorf("%q: %q does not say what is expected", raw, err)
		}
	}
}

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://u:secret@h:1/2":           "redis://u:***@h:1/2",
		"redis://:secret@h":                "redis://:***@h:6379",
		"redis://h":                        "redis://h:6379",
		"redis+sentinel://:secret@a,b/m/1": "redis+sentinel://:***@a:26379,b:26379/m/1",
		"unix:///s":                        "unix:///s",
		"nonsense secret":                  "(unreadable URL)",
	} {
		if got := Redact(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("redis://u:p@h:1/2?db=3")
	f.Add("redis+sentinel://a,b/m")
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := parse(raw)
		if err == nil && (len(got.addrs) == 0 || got.db < 0) {
			t.Errorf("%q: %+v", raw, got)
		}
	})
}

func TestTag(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "takt": "", "{takt}": "takt", "a{b}c": "b", "{}": "", "{a": "", "}{a}": "a"} {
		if got := Tag(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}
