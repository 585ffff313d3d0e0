package sfc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// paths is a recipe of n parallel paths with one command each.
func paths(n int) []byte {
	var steps, actions, branches []string
	for i := range n {
		steps = append(steps, fmt.Sprintf(`{"Name":"P%d"}`, i))
		actions = append(actions, fmt.Sprintf(`{"Name":"p%d","Step":"P%d","Qualifier":"N","Interaction":"push_command","TypeId":"p.v1","TimeoutSeconds":600}`, i, i))
		branches = append(branches, fmt.Sprintf(`["P%d"]`, i))
	}
	return []byte(`{"Steps":[{"Name":"A","Initial":true},{"Name":"Z"},` + strings.Join(steps, ",") + `],
"Transitions":[{"Source":"A","Target":"B","Condition":"always"},{"Source":"B","Target":"Z","Condition":"always"}],
"Branches":[{"Name":"B","Type":"simultaneous","Branches":[` + strings.Join(branches, ",") + `]}],
"Actions":[{"Name":"a","Step":"A","Qualifier":"N","Interaction":"push_command","TypeId":"a.v1","TimeoutSeconds":600},
{"Name":"z","Step":"Z","Qualifier":"N","Interaction":"push_command","TypeId":"z.v1","TimeoutSeconds":600},` + strings.Join(actions, ",") + `]}`)
}

// 100 parallel paths, whose answers come all at once and say no more than which command they are for, cost at most 200 calls of
// scripts in all.
func TestAnswersOfParallelPathsTogether(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.workMaster("WM", paths(100))
	g := testenv.NewGuillotine(t, p.redis.Addr)
	e := p.start("a", setup{url: g.URL, store: func(o *jobstore.Options) { o.WorkerTTL = time.Minute }, engine: func(o *Options) { o.Slots, o.TimerEvery = 64, time.Hour }})
	p.order("JO-0", "WM") // loads the scripts
	p.await("JO-0", "End", "ResultUpdate")
	p.settled()
	answered := func(n int) {
		eventually(t, "each answer is counted once", func() bool { return e.counts.of(OpActionState, OK) == n })
	}
	answered(102)
	g.Arm(0, false, nil)
	p.order("JO", "WM")
	p.await("JO", "End", "ResultUpdate")
	if got := len(p.cell.done("JO")); got != 102 {
		t.Errorf("%d commands were done, want 102", got)
	}
	answered(204)
	p.settled()
	k, calls := keys.New(p.prefix), 0
	for _, words := range g.Commands() { // heartbeats, which come with time, are not among them
		if strings.HasPrefix(strings.ToUpper(words[0]), "EVAL") &&
			(slices.Contains(words, k.SfcExecution("JO")) || slices.Contains(words, k.SfcOutbox())) {
			calls++
		}
	}
	t.Logf("%d calls of scripts", calls)
	if calls > 200 {
		t.Errorf("%d calls of scripts, want at most 200", calls)
	}
}

// One answer that cannot be handled does not take others with it: what fails together is tried alone.
func TestAnswersFailAlone(t *testing.T) {
	t.Parallel()
	p := newSilent(t)
	p.workMaster("WM", paths(8))
	e := p.start("a", setup{idle: true})
	p.order("JO", "WM")
	e.takeWork()
	x := p.load("JO").Execution
	p.must(e.Answer(t.Context(), answerTo(x.Action("a").CommandID, "{}")))
	x = p.load("JO").Execution
	job := x.JobID

	// The first leads, and waits for the rest before it settles them: so they are together.
	var all sync.WaitGroup
	errs := make([]error, 8)
	each := make([]*given, 8)
	for i := range each {
		each[i] = &given{cause: fmt.Sprint("E-", i), answer: recipe.Answer{CommandID: x.Action(fmt.Sprint("p", i)).CommandID, Result: []byte("{}")}}
	}
	each[3].answer.Error = &recipe.ActionError{Kind: string(cloudevent.KindCommunicationError), Message: "broken"}
	route, err := e.store.Route(t.Context(), each[0].answer.CommandID)
	p.must(err)
	if !e.answers.join(route.JobOrderID, each[0]) {
		t.Fatal("the first does not lead")
	}
	ctx, cancel := context.WithCancel(t.Context())
	for i := range each[1:] {
		all.Go(func() {
			n, patient := i+1, t.Context()
			if n == 5 {
				patient = ctx
			}
			errs[n] = again(patient, func() error { return e.settleAnswer(patient, route, each[n]) })
		})
	}
	waiting := func() int {
		e.answers.mu.Lock()
		defer e.answers.mu.Unlock()
		return len(e.answers.waiting[route.JobOrderID])
	}
	eventually(t, "all wait", func() bool { return waiting() == 8 })
	cancel() // one goes away: its message comes again
	eventually(t, "one has left", func() bool { return waiting() == 7 })
	batch := e.answers.take(route.JobOrderID)
	for _, g := range batch[1:] {
		g.turn <- turn{alone: true, err: errors.New("together it failed")}
	}
	e.answers.next(route.JobOrderID)
	all.Wait()
	for i, err := range errs {
		if i == 5 && !errors.Is(err, context.Canceled) || i != 5 && err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	if waiting() != 0 {
		t.Errorf("%d wait", waiting())
	}
	if x = p.load(job).Execution; !x.Failed {
		t.Errorf("the refusal did not count: %s", x.Encode())
	}
}
