package sfc

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// find-O4: without a right nothing is handled and nothing is lost. Answers and events come back to the broker, timers and work stay where they are,
// and once the right is back all of it is carried out.
func TestWithdrawnRightLosesNothing(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"evalsha", "mget"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			p := newPlantOn(t, testenv.StartRedis(t, embedded.RedisOptions{}))
			p.cell.react = func(request) reaction { return reaction{silent: true} }
			rdb, ctx := p.redis.Client, t.Context()
			rights := func(rule string) {
				p.must(rdb.Do(ctx, rdb.B().Arbitrary("ACL", "SETUSER", "takt", "on", ">secret", "~*", "&*", rule).Build()).Error())
			}
			rights("+@all")
			engine := setup{idle: true, url: strings.Replace(p.redis.URL, "redis://", "redis://takt:secret@", 1)}
			s := &steps{p, p.start("a", engine), p.start("b", engine)}
			drill := s.running("JO")
			rights("-" + right)
			if err := s.a.Answer(ctx, answerTo(drill, `{"depth":1}`)); !jobstore.Waits(err) {
				t.Errorf("the answer is taken for handled, or given up: %v", err)
			}
			if err := s.b.Answer(ctx, answerTo(drill, `{"depth":1}`)); !jobstore.Waits(err) {
				t.Errorf("the answer is taken for handled, or given up: %v", err)
			}
			if err := s.a.Event(ctx, event07("probe.v1", "cell-07", "", `{"bore":1}`)); !jobstore.Waits(err) {
				t.Errorf("the event is taken for handled, or given up: %v", err)
			}
			if _, err := s.a.tickDue(ctx); right == "evalsha" && !jobstore.Waits(err) {
				t.Errorf("timers: %v", err)
			}
			rights("+@all")
			s.must(s.a.Answer(ctx, answerTo(drill, `{"depth":1}`)))
			s.must(s.b.Event(ctx, event07("probe.v1", "cell-07", "", `{"bore":1}`)))
			if a := s.load("JO").Execution.Action("release"); a.State != recipe.ActionDispatched {
				t.Errorf("release is %s: the answer or the event is lost", a.State)
			}
			s.consistent()
		})
	}
}
