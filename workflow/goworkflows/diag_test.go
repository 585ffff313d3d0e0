package goworkflows_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/core"
	"github.com/cschleiden/go-workflows/diag"
	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// page is what the web interface gets of an instance, in the words of its client.ts.
type page struct {
	Instance    core.WorkflowInstance
	CreatedAt   string                     `json:"created_at"`
	CompletedAt *string                    `json:"completed_at"`
	State       core.WorkflowInstanceState `json:"state"`
	Queue       string                     `json:"queue"`
	Name        string                     `json:"workflow_name"`
	Failed      bool                       `json:"error"`
	Children    []page
	History     []struct {
		ID         string
		Sequence   int64 `json:"sequence_id"`
		Type       string
		Timestamp  string
		Ref        int64 `json:"schedule_event_id"`
		Attributes map[string]any
	}
}

// The library's web interface shows what there is.
func TestWebInterface(t *testing.T) {
	t.Parallel()
	b := open(t, testenv.Redis(t), quiet)
	child := func(ctx gowf.Context, n int) (int, error) {
		return gowf.ExecuteActivity[int](ctx, gowf.DefaultActivityOptions, double, n).Get(ctx)
	}
	fails := func(gowf.Context) error { return gowf.NewPermanentError(errBusy) }
	parent := func(ctx gowf.Context, n int) (int, error) {
		v, err := gowf.CreateSubWorkflowInstance[int](ctx, gowf.SubWorkflowOptions{InstanceID: "child"}, child, n).Get(ctx)
		if err != nil {
			return 0, err
		}
		_, _ = gowf.CreateSubWorkflowInstance[int](ctx, gowf.SubWorkflowOptions{InstanceID: "fails"}, fails).Get(ctx)
		more, _ := gowf.NewSignalChannel[int](ctx, "more").Receive(ctx)
		return v + more, nil
	}
	work(t, goworkflows.NewWorker(b, nil), []any{child, fails, parent}, []any{double})
	c := client.New(b)
	p := create(t, c, "parent", parent, 21)
	testenv.Eventually(t, "the parent waits", func() bool {
		i, err := b.Client().Info(t.Context(), workflow.Instance{ID: "parent"})
		return err == nil && i.LastSequence == 8
	})

	web := httptest.NewServer(diag.NewServeMux(b))
	t.Cleanup(web.Close)
	get := func(path string, into any) int {
		t.Helper()
		r, err := http.Get(web.URL + path)
		testenv.Must(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		testenv.Must(t, err)
		if r.StatusCode == http.StatusOK && into != nil {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatalf("%s: %s: %v", path, text, err)
			}
		}
		return r.StatusCode
	}
	line := func(i page) string {
		return fmt.Sprintf("%s %d %s %v", i.Instance.InstanceID, i.State, i.Queue, i.CompletedAt != nil)
	}
	branch := func(i page) string { return fmt.Sprintf("%s %v", line(i), i.Failed) }
	lines := func(list []page) (out []string) {
		for _, i := range list {
			out = append(out, line(i))
		}
		return out
	}

	var list, rest []page
	get("/api/", &list)
	all := []string{"fails 2 default true", "child 2 default true", "parent 0 default false"}
	if diff := cmp.Diff(all, lines(list)); diff != "" {
		t.Error(diff)
	}
	get("/api/?count=1", &rest)
	if diff := cmp.Diff(all[:1], lines(rest)); diff != "" {
		t.Error(diff)
	}
	get(fmt.Sprintf("/api/?count=2&after=%s:%s", list[0].Instance.InstanceID, list[0].Instance.ExecutionID), &rest)
	if diff := cmp.Diff(all[1:], lines(rest)); diff != "" {
		t.Error(diff)
	}
	var stats backend.Stats
	if get("/api/stats", &stats); stats.ActiveWorkflowInstances != 1 {
		t.Errorf("%+v", stats)
	}

	var one page
	of := "/api/" + p.InstanceID + "/" + p.ExecutionID
	if get(of, &one); line(one) != all[2] || one.CreatedAt == "" {
		t.Errorf("%+v", one)
	}
	var past []string
	for n, e := range one.History {
		if e.ID == "" || e.Timestamp == "" || e.Sequence != int64(n+1) {
			t.Errorf("event %d: %+v", n+1, e)
		}
		past = append(past, fmt.Sprint(e.Type, "/", e.Ref))
	}
	want := "WorkflowTaskStarted/0 WorkflowExecutionStarted/0 SubWorkflowScheduled/1 WorkflowTaskStarted/0 SubWorkflowCompleted/1 SubWorkflowScheduled/2 WorkflowTaskStarted/0 SubWorkflowFailed/2"
	if got := strings.Join(past, " "); got != want {
		t.Error(got)
	} else if inputs, result := one.History[2].Attributes["inputs"], one.History[4].Attributes["result"]; fmt.Sprint(inputs) != "[MjE=]" || result != "NDI=" {
		t.Errorf("the child got %v and returned %v", inputs, result) // 21 and 42, as JSON in base64
	}

	var tree page
	for _, i := range list { // the same from any of them
		get("/api/"+i.Instance.InstanceID+"/"+i.Instance.ExecutionID+"/tree", &tree)
		got := []string{branch(tree)}
		for _, c := range tree.Children {
			got = append(got, branch(c))
		}
		if diff := cmp.Diff([]string{all[2] + " false", all[1] + " false", all[0] + " true"}, got); diff != "" || tree.Name == "" {
			t.Errorf("tree of %s: %+v %s", i.Instance.InstanceID, tree, diff)
		}
	}
	for path, want := range map[string]int{"/": http.StatusOK, "/api/nobody/x": http.StatusNotFound, "/api/nobody/x/tree": http.StatusNotFound, of + "/bush": http.StatusNotFound} {
		if got := get(path, nil); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	testenv.Must(t, c.SignalWorkflow(t.Context(), "parent", "more", 8))
	if got, err := goworkflows.Result[int](t.Context(), b, p); got != 50 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if get(of, &one); line(one) != "parent 2 default true" {
		t.Errorf("at the end: %s", line(one))
	}
}
