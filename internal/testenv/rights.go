package testenv

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/redis/script"
)

// Trial is a script on a Bed.
type Trial struct {
	script *script.Script
	given  []string
	keys   string
	args   []string
}

// NewTrial is a script on a new Bed after the commands given, with these keys, as Bed.Run has them.
func NewTrial(s *script.Script, given []string, keys string, args []string) Trial {
	return Trial{s, given, keys, args}
}

var commandOf = regexp.MustCompile(`(?:redis\.p?call|\bcall|denied)\('([A-Z]+)'`)

// EachRight runs each script once without each of the commands that it names. The test fails unless the script then does all of its work, or
// returns an error that waits and changes nothing.
func EachRight(t *testing.T, srv *RedisServer, trials map[string]Trial) {
	t.Helper()
	rdb := srv.Client
	allow := func(rights string) {
		t.Helper()
		if err := rdb.Do(t.Context(), rdb.B().Arbitrary(strings.Fields("ACL SETUSER writer on >secret ~* &* +@all "+rights)...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	allow("")
	writer := srv.Connect(t, redis.Options{Username: "writer", Password: "secret"})
	for name, r := range trials {
		t.Run(name, func(t *testing.T) {
			run := func(lacking string) (changed []string, err error) {
				b := NewBed(t, srv, r.given...)
				var keys []string
				for _, k := range strings.Fields(r.keys) {
					keys = append(keys, b.key(k))
				}
				before := b.Dump()
				allow(lacking)
				err = r.script.Run(t.Context(), writer, keys, r.args...).Error()
				allow("")
				return Changed(before, b.Dump()), err
			}
			all, err := run("")
			if err != nil && !strings.Contains(err.Error(), "nil") || len(all) == 0 {
				t.Fatalf("with all rights: %v, changed %q, want some", err, all)
			}
			var names []string
			for _, m := range commandOf.FindAllStringSubmatch(r.script.Source(), -1) {
				names = append(names, m[1])
			}
			slices.Sort(names)
			refused := 0
			for _, lacking := range slices.Compact(names) {
				changed, err := run("-" + strings.ToLower(lacking))
				switch {
				case redis.Waits(err):
					refused++
					if len(changed) > 0 {
						t.Errorf("without %s: %v, but %q changed", lacking, err, changed)
					}
				case err != nil && !strings.Contains(err.Error(), "nil"):
					t.Errorf("without %s: %v, want an error that waits", lacking, err)
				default:
					if !slices.Equal(all, changed) {
						t.Errorf("without %s it changed %q, want %q", lacking, changed, all)
					}
				}
			}
			if refused == 0 {
				t.Error("never refused")
			}
		})
	}
}
