package testenv

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis/script"
)

// Bed is where a test runs a script by itself, on keys that have a letter each.
type Bed struct {
	t      testing.TB
	srv    *RedisServer
	prefix string
}

// NewBed is a Bed with a prefix of its own, after these commands.
func NewBed(t testing.TB, srv *RedisServer, given ...string) *Bed {
	b := &Bed{t, srv, srv.Prefix(t)}
	for _, command := range given {
		b.Do(command)
	}
	return b
}

// Prefix is what the names of all its keys begin with, for a script that makes names itself.
func (b *Bed) Prefix() string { return b.prefix + ":" }

func (b *Bed) key(name string) string { return b.prefix + ":" + name }

// Do runs a command; its key is a letter, and a ~ within a word is a space.
func (b *Bed) Do(command string) {
	b.t.Helper()
	words := strings.Fields(command)
	at := 1
	switch words[0] {
	case "XGROUP":
		at = 2
	case "XREADGROUP":
		at = len(words) - 2
	}
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "~", " ")
	}
	words[at] = b.key(words[at])
	b.srv.Must(b.t, words...)
}

// Run runs a script with keys, letters with spaces between them, and returns the words of the reply, or the error.
func (b *Bed) Run(s *script.Script, keys string, args ...string) string {
	b.t.Helper()
	var names []string
	for _, k := range strings.Fields(keys) {
		names = append(names, b.key(k))
	}
	reply, err := s.Run(b.t.Context(), b.srv.Client, names, args...).ToAny()
	if err != nil {
		return strings.ReplaceAll(err.Error(), b.prefix+":", "")
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(reply), "[]"), b.prefix+":", "")
}

// Dump is what all keys of the bed hold, with when they expire.
func (b *Bed) Dump() map[string]string {
	b.t.Helper()
	all, err := b.srv.AllKeys(b.t.Context())
	Must(b.t, err)
	values := make(map[string]string)
	for _, key := range all {
		name, ok := strings.CutPrefix(key, b.prefix+":")
		if !ok {
			continue
		}
		text, err := b.srv.Must(b.t, "DUMP", key).ToString()
		Must(b.t, err)
		values[name] = fmt.Sprint(text, " ", b.srv.Number(b.t, "PEXPIRETIME", key))
	}
	return values
}

// Changed names the keys that differ.
func Changed(before, after map[string]string) (names []string) {
	for name := range after {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
