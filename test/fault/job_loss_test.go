package fault_test

import (
	"os"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
)

// Fault 5: Redis is killed at any moment, also while it has answered what is not in its file yet. It loses at most what a flush had in hand. The MES is told of each order that was
// lost, orders it again, and starts again what Redis believes was never started.
func TestFault5RedisKilledDuringAFlush(t *testing.T) {
	t.Parallel()
	jobFault{commands: true, forgets: true, redis: embedded.RedisOptions{Persist: true}, do: func(w *jobWorld) {
		for range 3 {
			killed := w.strikes("Redis is killed")
			restart(t, w.Redis.Server)
			killed.ends(0)
			w.more()
		}
	}}.run(t)
}

// Fault 6: the power of Redis' machine fails: its append-only file is cut in the middle of its last second. Orders of that second are reported as lost and ordered again; no
// result is handed over twice, and the machine does no command twice.
func TestFault6PowerLoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobFault{commands: true, forgets: true, redis: embedded.RedisOptions{Dir: dir, Persist: true, Config: []string{"auto-aof-rewrite-percentage 0"}}, do: func(w *jobWorld) {
		w.Redis.Settle(t)
		file, safe := appendOnly(t, dir)
		w.must("CLIENT", "UNPAUSE")
		w.lasts(time.Second) // what is lost
		w.Until("Redis has written something", func() bool {
			_, size := appendOnly(t, dir)
			return size > safe
		})
		failed := w.strikes("the last second of Redis is lost")
		w.Redis.Kill(t)
		_, size := appendOnly(t, dir)
		cut := safe + w.Rand.Int64N(size-safe)
		t.Logf("%d of %d bytes are lost", size-cut, size)
		if err := os.Truncate(file, cut); err != nil {
			t.Fatal(err)
		}
		restart(t, w.Redis.Server)
		failed.ends(0)
	}}.run(t)
}

// Fault 7: Redis comes back with an older copy of itself, in which orders run that have ended since, and were cleared. Nothing is handed over twice, no command is carried out
// twice, and all orders that Redis does not know any more are ordered again.
func TestFault7OlderCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobFault{commands: true, forgets: true, redis: embedded.RedisOptions{Dir: dir}, do: func(w *jobWorld) {
		w.must("SAVE")
		w.some(0.5) // done and cleared since
		before := w.mes.Ledger().Seq
		back := w.strikes("Redis is an older copy of itself")
		w.Redis.Kill(t)
		restart(t, w.Redis.Server) // without an append-only file it begins with what it saved
		back.ends(0)
		w.Until("there is another state index", func() bool { return w.mes.Ledger().Seq != before })
		if l := w.mes.Ledger(); l.Seq < before {
			t.Errorf("seq is %d after %d", l.Seq, before)
		}
	}}.run(t)
}
