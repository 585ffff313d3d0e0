package jobstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/isa95"
)

// The bytes that a scope has stored are its job orders and their responses as JSON, from Store to Clear or Cancel. Each order notes what was counted of it in its
// document and in its entry in pubidx, and the commits that change it change the sum at jobbytes:{scope}. An order that an earlier version stored is not
// counted. One that an earlier version changed or cleared stays in the sum, which is then too high, until RecountBytes.

//go:embed recount.lua
var recountLua string

var recountScript = script.New("jobstore/recount", recountLua)

// RecountBytes counts the bytes that a scope has stored anew and returns them. wrong says that the sum was another one, and is corrected. The cost is that of the
// state index of the scope. One round trip.
func (s *Store) RecountBytes(ctx context.Context, scope isa95.Scope) (bytes int64, wrong bool, err error) {
	reply, err := recountScript.Run(ctx, s.rdb, []string{s.keys.PubIndex(string(scope)), s.keys.JobBytes(string(scope))}).AsStrSlice()
	if err == nil && len(reply) == 2 && reply[0] == "type" {
		return 0, false, &DocumentError{Key: reply[1], Err: errors.New("is not of the type that Takt keeps there")}
	}
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("script replied %q", reply)
	}
	if err == nil {
		bytes, err = strconv.ParseInt(reply[0], 10, 64)
	}
	if err != nil {
		return 0, false, fmt.Errorf("jobstore: count the bytes of scope %s: %w", scope, s.alarm.Note(err))
	}
	return bytes, reply[1] == "1", nil
}

// More is how many bytes the scope would have stored in addition with text as the order, in JSON; job is what is stored under its id, nil: nothing.
func More(job *StoredOrder, text []byte) int64 { return int64(len(text)) - counted(job) }

// counted is what an order is in the sum with.
func counted(job *StoredOrder) int64 {
	if job == nil || job.State.IsEnd() {
		return 0
	}
	return job.Bytes
}

// Over says whether the scope would have stored more than BytesLimit with so many bytes more.
func (a *Acceptance) Over(more int64) bool {
	return a.BytesLimit > 0 && more > 0 && a.Bytes+more > a.BytesLimit
}

// count changes the sum of the scope, and makes the commit fail with ErrConflict if an accepted order would exceed the limit.
func (w *writer) count(bytes int64) {
	key, more := w.store.keys.JobBytes(w.scope), bytes-counted(w.snap.Job)
	if more == 0 {
		return
	}
	if a := w.change.Acceptance; a != nil && a.BytesLimit > 0 && more > 0 {
		w.c.ExpectAtMost(key, max(a.BytesLimit-more, 0))
	}
	w.c.IncrBy(key, more)
}
