package goworkflows_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

const (
	dyingLease    = 500 * time.Millisecond
	survivorLease = time.Second
	steadyLease   = 10 * time.Second // of one that must not lose it
	atOnce        = 12               // runs; most of their time they wait for a lease to end
	leastCalls    = 30               // of a run
)

// A worker process is killed right before one of its calls to Redis, or right after it, before it hears of the outcome; TAKT_TEST_LONG=1 takes each call. Another one finishes the job as if nothing
// had happened.
func TestKilledAfterEachCall(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	runKilled(t, srv, 0, false) // the server knows the scripts from then on
	want, calls, _ := runKilled(t, srv, 0, false)
	t.Logf("a whole run takes %d calls", calls)
	if calls < leastCalls {
		t.Fatalf("a whole run takes %d calls, want %d at least", calls, leastCalls)
	}
	for key, n := range want.attempts {
		if n != 1 {
			t.Errorf("without a fault %s was attempted %d times", key, n)
		}
	}
	var killed [2]atomic.Int64
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	every := 4
	if os.Getenv("TAKT_TEST_LONG") != "" {
		every = 1
	}
	for at := 1; at <= calls; at += every {
		for mode, lose := range []bool{false, true} {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				t.Run(fmt.Sprintf("%d-done=%v", at, lose), func(t *testing.T) {
					got, _, fell := runKilled(t, srv, at, lose)
					if fell {
						killed[mode].Add(1)
					}
					if diff := cmp.Diff(want.story, got.story); diff != "" {
						t.Errorf("without the fault - and with it +: %s", diff)
					}
				})
			})
		}
	}
	all.Wait()
	for mode := range killed {
		n := killed[mode].Load() // not all: a run takes a call more or less
		if t.Logf("killed %d times", n); n < int64(leastCalls/every) {
			t.Errorf("killed %d times, want %d at least", n, leastCalls/every)
		}
	}
}

// story is what came of a run, in the same words for each.
type story struct {
	Result     Sale
	Executions []string         // with their histories
	Effects    map[string]int64 // by key
	Keys       []string         // that are left
}

type ending struct {
	story    story
	attempts map[string]int64
}

// runKilled runs a sale with a worker process that is killed at a call, 0 = at none. calls is how many it made until then, or until the end; it may have ended before.
func runKilled(t *testing.T, srv *testenv.RedisServer, at int, lose bool) (e ending, calls int, killed bool) {
	prefix := srv.Prefix(t)
	core, err := workflow.New(srv.Client, workflow.Options{Prefix: prefix})
	testenv.Must(t, err)
	t.Cleanup(core.Close)
	b, err := goworkflows.New(core, quiet)
	testenv.Must(t, err)
	g := testenv.NewGuillotine(t, srv.Addr)
	g.Only(counts)
	lease := dyingLease
	if at == 0 {
		lease = steadyLease
	}
	p := startWorker(t, workerConfig{URL: g.URL, Prefix: prefix, Lease: lease})
	g.Arm(at, lose, func() { p.signal(syscall.SIGKILL) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.SignalWithStart(ctx, "go", 7, named("sale"), sale, Sale{Amount: 42}); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- untilFinished(ctx, b, "sale") }()
	select {
	case <-g.Fell:
	case err = <-over:
		over <- err
	}
	calls = g.Count()
	if killed = !g.Disarm(); killed {
		<-p.gone
		p = startWorker(t, workerConfig{URL: srv.URL, Prefix: prefix, Lease: survivorLease})
	}
	if err := <-over; err != nil {
		t.Fatalf("%v; killed %s", err, g.Where())
	}
	p.stop()
	e = told(t, srv, b, prefix)
	if t.Failed() {
		t.Logf("killed %s", g.Where())
	}
	return e, calls, killed
}

// counts leaves out heartbeats, which come at any time. They are scripts with that key alone.
func counts(words []string) bool {
	switch words[0] {
	case "EVALSHA", "EVAL":
		return len(words) > 3 && !(words[2] == "1" && strings.Contains(words[3], ":worker:"))
	}
	return words[0] == "XREADGROUP"
}

// untilFinished waits until the last execution of an instance has ended.
func untilFinished(ctx context.Context, b *goworkflows.Backend, id string) error {
	for {
		info, _, err := b.Client().Await(ctx, workflow.Instance{ID: id})
		if err != nil || info.State == workflow.Finished {
			return err
		}
	}
}

// told is the story of a run that is over.
func told(t *testing.T, srv *testenv.RedisServer, b *goworkflows.Backend, prefix string) (e ending) {
	t.Helper()
	ctx := t.Context()
	var err error
	e.story.Result, err = goworkflows.Result[Sale](ctx, b, &gowf.Instance{InstanceID: "sale"})
	testenv.Must(t, err)
	for i, err := range b.Client().All(ctx, workflow.Filter{}) {
		testenv.Must(t, err)
		e.story.Executions = append(e.story.Executions, fmt.Sprintf("%s %s %s: %s", i.ID, i.State, i.Outcome, pastOf(t, b, i)))
	}
	slices.Sort(e.story.Executions)
	books := &Books{srv.Client, prefix}
	e.attempts = unnamed(books.counts(t, "attempts"))
	e.story.Effects = unnamed(books.counts(t, "effects"))
	e.story.Keys = keysOf(t, srv, prefix)
	sound(t, b)
	return e
}

// sound wants all invariants of the core to hold.
func sound(t testing.TB, b *goworkflows.Backend) {
	t.Helper()
	found, err := b.Client().Check(t.Context(), 0)
	if err != nil {
		t.Error(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// pastOf is the history of an execution in a line, without how it was divided into tasks. Its numbers must be without a gap.
func pastOf(t testing.TB, b *goworkflows.Backend, i workflow.Info) string {
	t.Helper()
	events, err := b.Client().History(t.Context(), i.Instance, 0)
	testenv.Must(t, err)
	var past []string
	for n, e := range events {
		if e.Sequence != int64(n+1) {
			t.Errorf("%s: event %d has number %d", i, n+1, e.Sequence)
		}
		if e.Type != "WorkflowTaskStarted" {
			past = append(past, fmt.Sprint(e.Type, "/", e.Ref))
		}
	}
	if int64(len(events)) != i.LastSequence {
		t.Errorf("%s: %d events, the last has number %d", i, len(events), i.LastSequence)
	}
	return strings.Join(past, " ")
}

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// unnamed counts what was named by chance as one.
func unnamed(counts map[string]int64) map[string]int64 {
	out := make(map[string]int64)
	for key, n := range counts {
		out[anyUUID.ReplaceAllString(key, "?")] += n
	}
	return out
}

// keysOf are those of a prefix, but for heartbeats and the note of who looked last for deleted tasks, which expire.
func keysOf(t testing.TB, srv *testenv.RedisServer, prefix string) (keys []string) {
	t.Helper()
	all, err := srv.AllKeys(t.Context())
	testenv.Must(t, err)
	for _, key := range all {
		if rest, ok := strings.CutPrefix(key, prefix+":"); ok && !strings.HasPrefix(rest, "worker:") && rest != "workflow:mended" {
			keys = append(keys, anyUUID.ReplaceAllString(rest, "?"))
		}
	}
	slices.Sort(keys)
	return keys
}
