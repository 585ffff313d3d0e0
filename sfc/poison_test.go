package sfc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/isa95"
)

// What can never be handled is logged and acknowledged: held, it would keep back every acknowledgement after it, and with
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
	s.must(rdb.Do(ctx, rdb.B().Del().Key(k.SfcMailbox("cell-07", "odd.v1"), k.SfcMailbox("cell-07", "probe.v1")).Build()).Error())
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
