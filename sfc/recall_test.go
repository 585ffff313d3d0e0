package sfc

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// What an instance remembers of a running order is what stands in Redis, after each of its commits, and nothing once the order has ended. So an
// answer there costs one round trip, its commit; after a change of another instance the first answer costs two more.
func TestRecalledIsWhatIsStored(t *testing.T) {
	t.Parallel()
	p := newSilent(t)
	proxy := testenv.CountingProxy(t, p.redis.URL)
	s := &steps{p, p.start("a", setup{idle: true, url: proxy.URL}), p.start("b", setup{idle: true})}
	p.workMaster("WM", pushes(8))
	s.ordered("JO")
	recalled := func(what string) {
		t.Helper()
		is, stored := s.a.store.Recall("JO"), p.load("JO")
		if is == nil {
			t.Fatalf("%s: nothing is remembered", what)
		}
		if diff := cmp.Diff(stored.Execution, is.Execution); diff != "" {
			t.Errorf("%s: execution: -stored +remembered\n%s", what, diff)
		}
		if diff := cmp.Diff(stored.Job.JobOrder, is.Job.JobOrder); diff != "" {
			t.Errorf("%s: job order: -stored +remembered\n%s", what, diff)
		}
		text, err := is.Job.Text()
		want, wantErr := stored.Job.Text()
		if err != nil || wantErr != nil || !bytes.Equal(text, want) {
			t.Errorf("%s: the text of the order is %s, %v, want %s, %v", what, text, err, want, wantErr)
		}
		if is.Job.State.String() != stored.Job.State.String() || is.Job.Event != stored.Job.Event ||
			is.Job.Scope != stored.Job.Scope || is.Job.JudgedBy != stored.Job.JudgedBy || is.Scope != scope {
			t.Errorf("%s: remembered %+v, stored %+v", what, is.Job, stored.Job)
		}
	}
	answer := func(by *instance, n int) {
		t.Helper()
		id := s.command("JO", fmt.Sprintf("a%d", n))
		x := p.load("JO").Execution
		by.routes.put(id, jobstore.Route{JobOrderID: "JO", Scope: scope, Recipe: x.Recipe, Token: testSeed.Token(id)}) // it has sent the command
		proxy.Reset()
		s.must(by.Answer(t.Context(), answerTo(id, fmt.Sprintf(`{"n": %d, "text": "\u00e4"}`, n))))
	}
	costs := func(what string, want int) {
		t.Helper()
		if n := proxy.Trips(); n != want {
			t.Errorf("an answer %s costs %d round trips, want %d", what, n, want)
		}
	}
	recalled("started")
	answer(s.a, 0)
	recalled("answered")
	answer(s.a, 1)
	costs("as usual", 1)
	answer(s.b, 2)
	answer(s.a, 3)
	costs("to a command that is not remembered", 2)
	if s.a.store.Recall("JO") != nil {
		t.Error("an order that another instance changes is decided on without reading it")
	}
	answer(s.a, 4)
	costs("after a change elsewhere", 2)
	recalled("not changed elsewhere for two commits")
	answer(s.a, 5)
	costs("as usual again", 1)
	s.call("JO", isa95.Pause, nil)
	answer(s.a, 6)
	costs("that is decided on what was before", 3) // a commit that is refused, a look, a commit
	if x := p.load("JO").Execution; !x.Paused || x.Action("a7").State != recipe.ActionPending || x.Action("a6").State != recipe.ActionCompleted {
		t.Errorf("it went on though paused: %+v", x)
	}
	s.call("JO", isa95.Resume, nil)
	s.a.takeWork()
	answer(s.a, 7)
	if state := p.state("JO"); state != "Ended_Completed" {
		t.Errorf("the order is %s", state)
	}
	if s.a.store.Recall("JO") != nil {
		t.Error("an order that has ended is remembered")
	}
}

// Mailboxes are not remembered: an answer that leads to an action which waits for an event gets one that came before.
func TestEarlyEventAfterARecalledAnswer(t *testing.T) {
	t.Parallel()
	s := newSteps(t)
	s.workMaster("WM", []byte(`{"Steps": [{"Name": "A", "Initial": true}, {"Name": "B"}],
"Transitions": [{"Source": "A", "Target": "B", "Condition": "always", "Priority": 0}],
"Actions": [{"Name": "go", "Step": "A", "Qualifier": "N", "Interaction": "push_command", "TypeId": "go.v1", "TimeoutSeconds": 600},
{"Name": "wait", "Step": "B", "Qualifier": "N", "Interaction": "pull_event", "TypeId": "part.v1", "TimeoutSeconds": 600}]}`))
	s.ordered("JO")
	s.must(s.b.Event(t.Context(), event07("part.v1", "cell-07", "", `{"n":1}`)))
	if s.a.store.Recall("JO") == nil {
		t.Fatal("nothing is remembered")
	}
	s.must(s.a.Answer(t.Context(), answerTo(s.command("JO", "go"), `{}`)))
	if got := string(s.load("JO").Execution.Action("wait").Result); got != `{"n":1}` {
		t.Errorf("the action has %q", got)
	}
	s.consistent()
}
