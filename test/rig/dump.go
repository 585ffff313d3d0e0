package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Dump is everything that the store holds, as text by key, but for the ledger of installation time, which goes on with time. Two
// dumps are equal if and only if nothing else has changed, expiry times apart.
func (w *World) Dump() map[string]string {
	w.T.Helper()
	ctx, c := w.T.Context(), w.Redis.Client
	all, err := w.Redis.AllKeys(ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	dump := make(map[string]string, len(all))
	for _, key := range all {
		if key == w.Prefix+":sfc:clock" {
			continue
		}
		kind, err := c.Do(ctx, c.B().Type().Key(key).Build()).ToString()
		if err != nil {
			w.T.Fatal(err)
		}
		var text string
		switch kind {
		case "none": // expired meanwhile
			continue
		case "string":
			text, err = c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
		case "hash":
			var m map[string]string
			m, err = c.Do(ctx, c.B().Hgetall().Key(key).Build()).AsStrMap()
			text = fmt.Sprint(m) // in the order of the fields
		case "set":
			var members []string
			members, err = c.Do(ctx, c.B().Smembers().Key(key).Build()).AsStrSlice()
			slices.Sort(members)
			text = strings.Join(members, " ")
		case "zset":
			var scores any
			scores, err = c.Do(ctx, c.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build()).AsZScores()
			text = fmt.Sprint(scores)
		case "stream":
			var entries any
			entries, err = c.Do(ctx, c.B().Xrange().Key(key).Start("-").End("+").Build()).AsXRange()
			text = fmt.Sprint(entries)
		default:
			w.T.Fatalf("%s is a %s", key, kind)
		}
		if err != nil {
			w.T.Fatalf("%s: %v", key, err)
		}
		dump[strings.TrimPrefix(key, w.Prefix+":")] = text
	}
	return dump
}

// keepDump leaves what the store holds when the test ends, to look at after a failure.
func (w *World) keepDump() {
	keep := os.Getenv("TAKT_TEST_KEEP")
	if keep == "" {
		return
	}
	w.T.Cleanup(func() {
		var b strings.Builder
		keys, err := w.Redis.AllKeys(context.Background())
		if err != nil {
			return
		}
		slices.Sort(keys)
		c := w.Redis.Client
		for _, key := range keys {
			if text, err := c.Do(context.Background(), c.B().Get().Key(key).Build()).ToString(); err == nil {
				fmt.Fprintf(&b, "%s %s\n", key, text)
			} else {
				fmt.Fprintln(&b, key)
			}
		}
		_ = os.WriteFile(filepath.Join(w.Dir, "store.txt"), []byte(b.String()), 0o600)
	})
}
