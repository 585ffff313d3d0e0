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
	k, rdb, ctx := keys.New(s.prefix), s.redis.Client, t.Context()
	s.must(rdb.Do(ctx, rdb.B().Lpush().Key(k.SfcMailbox("cell-07", "odd.v1")).Element("x").Build()).Error())
	s.must(s.a.Event(ctx, event07("odd.v1", "cell-07", "", `{}`)))

	s.must(rdb.Do(ctx, rdb.B().Del().Key(k.SfcMailbox("cell-07", "probe.v1")).Build()).Error())
	s.must(rdb.Do(ctx, rdb.B().Lpush().Key(k.SfcMailbox("cell-07", "probe.v1")).Element("x").Build()).Error())
	s.must(s.a.Answer(ctx, answerTo(drill, `{"depth":1}`)))
	s.must(s.b.Answer(ctx, answerTo(drill, `{"depth":1}`)))
	letters, err := rdb.Do(ctx, rdb.B().Xrange().Key(k.IntakeDead()).Start("-").End("+").Build()).AsXRange()
	s.must(err)
	var kinds []string
	for _, l := range letters {
		kinds = append(kinds, l.FieldValues["kind"])
		if strings.Contains(fmt.Sprint(l.FieldValues), string(testSeed.Token(drill))) {
			t.Errorf("a dead letter has the token of its answer: %v", l.FieldValues)
		}
	}
	if fmt.Sprint(kinds) != "[event answer answer]" { // one of each process
		t.Errorf("dead letters: %v", kinds)
	}

	// The timer of the order cannot be handled either: it rests, and does not spin.
	s.must(rdb.Do(ctx, rdb.B().Zadd().Key(k.SfcTimers()).ScoreMember().ScoreMember(1, "JO").Build()).Error())
	if n, err := s.a.tickDue(ctx); n != 1 || err != nil {
		t.Errorf("%d timers, %v", n, err)
	}
	due, err := rdb.Do(ctx, rdb.B().Zscore().Key(k.SfcTimers()).Member("JO").Build()).AsFloat64()
	s.must(err)
	if rest := time.UnixMilli(int64(due)).Sub(s.mes.Now()); rest < s.a.opt.TimerHold/2 {
		t.Errorf("a timer that cannot be handled is due again in %v", rest)
	}
	s.must(rdb.Do(ctx, rdb.B().Del().Key(k.SfcMailbox("cell-07", "odd.v1"), k.SfcMailbox("cell-07", "probe.v1"), k.IntakeDead()).Build()).Error())
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
	rdb := s.redis.Client
	for i := range 2 {
		n, err := rdb.Do(t.Context(), rdb.B().Strlen().Key(keys.New(s.prefix).SfcMailbox("cell-07", fmt.Sprintf("flood.v%d", i))).Build()).AsInt64()
		if err != nil || n > maxMailbox || n < 600<<10 {
			t.Errorf("mailbox of %d bytes, %v, want at most %d", n, err, maxMailbox)
		}
	}
}
