package sfc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
)

// What can never be handled is acknowledged, and kept as a dead letter: held, it would keep back every acknowledgement after it, and with
// them all that the broker has for this instance.
func TestWhatCannotBeHandledIsLetGo(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	drill := s.running("JO")
	k, ctx := keys.New(s.prefix), t.Context()
	s.redis.Must(t, "LPUSH", k.SfcMailbox("cell-07", "odd.v1"), "x")
	s.must(s.a.Event(ctx, event07("odd.v1", "cell-07", "", `{}`)))

	s.redis.Must(t, "DEL", k.SfcMailbox("cell-07", "probe.v1"))
	s.redis.Must(t, "LPUSH", k.SfcMailbox("cell-07", "probe.v1"), "x")
	s.must(s.a.Answer(ctx, answerTo(drill, `{"depth":1}`)))
	s.must(s.b.Answer(ctx, answerTo(drill, `{"depth":1}`)))
	var kinds []string
	for _, l := range s.entries(k.IntakeDead()) {
		kinds = append(kinds, l["kind"])
		if strings.Contains(fmt.Sprint(l), string(testSeed.Token(drill))) {
			t.Errorf("a dead letter has the token of its answer: %v", l)
		}
	}
	if fmt.Sprint(kinds) != "[event answer answer]" { // one of each process
		t.Errorf("dead letters: %v", kinds)
	}

	// The timer of the order cannot be handled either: it rests, and does not spin.
	s.redis.Must(t, "ZADD", k.SfcTimers(), "1", "JO")
	if n, err := s.a.tickDue(ctx); n != 1 || err != nil {
		t.Errorf("%d timers, %v", n, err)
	}
	due, err := s.redis.Must(t, "ZSCORE", k.SfcTimers(), "JO").AsFloat64()
	s.must(err)
	if rest := time.UnixMilli(int64(due)).Sub(s.mes.Now()); rest < s.a.opt.TimerHold/2 {
		t.Errorf("a timer that cannot be handled is due again in %v", rest)
	}
	s.redis.Must(t, "DEL", k.SfcMailbox("cell-07", "odd.v1"), k.SfcMailbox("cell-07", "probe.v1"), k.IntakeDead())
	s.call("JO", isa95.Abort, nil)
}

// Events that nobody waits for fill a mailbox to its limit and no further.
func TestMailboxIsBounded(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	for i := range 12 {
		body := fmt.Sprintf(`"%d %s"`, i, strings.Repeat("x", 200<<10))
		s.must(s.a.Event(t.Context(), event07(fmt.Sprintf("flood.v%d", i%2), "cell-07", "", body)))
	}
	for i := range 2 {
		n := s.redis.Number(t, "STRLEN", keys.New(s.prefix).SfcMailbox("cell-07", fmt.Sprintf("flood.v%d", i)))
		if n > maxMailbox || n < 600<<10 {
			t.Errorf("mailbox of %d bytes, want at most %d", n, maxMailbox)
		}
	}
}
