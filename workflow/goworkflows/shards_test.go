package goworkflows_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/test"
	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

const shards = 4

// openSharded is open, with instances spread over shards.
func openSharded(t testing.TB, srv *testenv.RedisServer, opts ...backend.BackendOption) (b *goworkflows.Backend, prefix string) {
	t.Helper()
	prefix = srv.ShardedPrefix(t, shards)
	b, err := goworkflows.Open(t.Context(), fmt.Sprintf("%s?prefix=%s&shards=%d", srv.URL, prefix, shards), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, b) })
	return b, prefix
}

// The library's own suites, with parents and children on different shards wherever it happens so.
func TestSuitesOnShards(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	setup := func(opts ...backend.BackendOption) test.TestBackend {
		b, _ := openSharded(t, srv, opts...)
		return b
	}
	test.BackendTest(t, setup, func(b test.TestBackend) { shut(t, b) })
	test.EndToEndBackendTest(t, setup, func(b test.TestBackend) { shut(t, b) })
}

// home is the shard of an instance.
func home(t testing.TB, srv *testenv.RedisServer, prefix, id string) (shard int) {
	t.Helper()
	keys, err := srv.AllKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shard = -1
	for _, key := range keys {
		for n := range shards {
			if strings.HasPrefix(key, fmt.Sprintf("{%s-%d}:workflow:", prefix, n)) && strings.HasSuffix(key, ":last:"+id) {
				shard = n
			}
		}
	}
	return shard
}

// A parent has children on all shards, each of which signals it, continues as new, and answers, or is canceled.
func TestChildrenOnOtherShards(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	b, prefix := openSharded(t, srv, quiet)
	const children = 16
	child := func(ctx gowf.Context, parent string, round, n int) (int, error) {
		if _, err := gowf.SignalWorkflow(ctx, parent, "hello", n).Get(ctx); err != nil {
			return 0, err
		}
		if round < 2 {
			return 0, gowf.ContinueAsNew(ctx, parent, round+1, n)
		}
		return n, nil
	}
	waits := func(ctx gowf.Context, parent string) (int, error) {
		if _, err := gowf.SignalWorkflow(ctx, parent, "hello", 1000).Get(ctx); err != nil {
			return 0, err
		}
		return 0, gowf.Sleep(ctx, 1<<50)
	}
	parent := func(ctx gowf.Context) (sum [3]int, err error) {
		me := gowf.WorkflowInstance(ctx).InstanceID
		short, cancel := gowf.WithCancel(ctx)
		var answers, canceled []gowf.Future[int]
		for n := range children {
			answers = append(answers, gowf.CreateSubWorkflowInstance[int](ctx, gowf.SubWorkflowOptions{InstanceID: fmt.Sprint("child-", n)}, child, me, 0, n))
			canceled = append(canceled, gowf.CreateSubWorkflowInstance[int](short, gowf.SubWorkflowOptions{InstanceID: fmt.Sprint("waits-", n)}, waits, me))
		}
		hello := gowf.NewSignalChannel[int](ctx, "hello")
		for range 4 * children {
			n, _ := hello.Receive(ctx)
			sum[0] += n
		}
		for _, f := range answers {
			n, err := f.Get(ctx)
			if err != nil {
				return sum, err
			}
			sum[1] += n
		}
		cancel()
		for _, f := range canceled {
			if _, err := f.Get(ctx); err != nil {
				sum[2]++
			}
		}
		return sum, nil
	}
	work(t, goworkflows.NewWorker(b, nil), []any{child, waits, parent}, nil)
	i := create(t, client.New(b), "parent", parent)
	all := children * (children - 1) / 2
	want := [3]int{3*all + 1000*children, all, children}
	if got, err := goworkflows.Result[[3]int](t.Context(), b, i); got != want || err != nil {
		t.Errorf("%d, %v, want %d", got, err, want)
	}
	homes := map[int]bool{}
	for n := range children {
		homes[home(t, srv, prefix, fmt.Sprint("child-", n))] = true
	}
	if parent := home(t, srv, prefix, "parent"); len(homes) != shards || homes[-1] || parent < 0 {
		t.Errorf("children are on shards %v, their parent on %d", homes, parent)
	}
	tree, err := b.GetWorkflowTree(t.Context(), i)
	if err != nil || len(tree.Children) != 2*children {
		t.Errorf("tree of %d, %v", len(tree.Children), err)
	}
	for n := range children {
		for _, id := range []string{fmt.Sprint("child-", n), fmt.Sprint("waits-", n)} {
			if err := untilFinished(t.Context(), b, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	for info, err := range b.Client().All(t.Context(), workflow.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		pastOf(t, b, info)
	}
	sound(t, b)
}
