package rig

import (
	"fmt"
	"strings"

	"github.com/taktworks/takt/internal/testenv"
)

// Dump is everything that the store holds, as text by key, but for the ledger of installation time, which goes on with time. Two
// dumps are equal if and only if nothing else has changed, expiry times apart.
func (w *World) Dump() map[string]string {
	w.T.Helper()
	all, err := w.Redis.AllKeys(w.T.Context())
	testenv.Must(w.T, err)
	dump := make(map[string]string, len(all))
	for _, key := range all {
		if key == w.Prefix+":sfc:clock" {
			continue
		}
		kind, err := w.Redis.Must(w.T, "TYPE", key).ToString()
		testenv.Must(w.T, err)
		if kind == "none" { // expired meanwhile
			continue
		}
		read, ok := map[string][]string{
			"string": {"GET", key}, "hash": {"HGETALL", key}, "set": {"SORT", key, "ALPHA"}, "zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"}, "stream": {"XRANGE", key, "-", "+"},
		}[kind]
		if !ok {
			w.T.Fatalf("%s is a %s", key, kind)
		}
		value, err := w.Redis.Must(w.T, read...).ToAny()
		if err != nil {
			w.T.Fatalf("%s: %v", key, err)
		}
		dump[strings.TrimPrefix(key, w.Prefix+":")] = fmt.Sprint(value) // a hash in the order of its fields
	}
	return dump
}
