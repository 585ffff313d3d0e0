package goworkflows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/backend/history"
	"github.com/cschleiden/go-workflows/client"
	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// A workflow signals by an activity, whose worker dies after the signal and before its result: it is sent again, and counts once.
func TestSignalOfWorkflowCountsOnce(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	g := testenv.NewGuillotine(t, srv.Addr)
	prefix := srv.Prefix(t)
	at := func(url string) *goworkflows.Backend {
		b, err := goworkflows.Open(t.Context(), fmt.Sprintf("%s?prefix=%s&lease=%s", url, prefix, 500*time.Millisecond), quiet)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shut(t, b) })
		return b
	}
	self := func(ctx gowf.Context) (int, error) {
		if _, err := gowf.SignalWorkflow(ctx, gowf.WorkflowInstance(ctx).InstanceID, "self", 7).Get(ctx); err != nil {
			return 0, err
		}
		n, _ := gowf.NewSignalChannel[int](ctx, "self").Receive(ctx)
		return n, nil
	}
	dying := at(g.URL)
	g.Only(func(words []string) bool {
		return strings.HasPrefix(words[0], "EVAL") && strings.Contains(strings.Join(words, " "), `"ActivityCompleted"`)
	})
	g.Arm(1, false, func() {})
	work(t, goworkflows.NewWorker(dying, nil), []any{self}, nil)
	b := at(srv.URL)
	c := client.New(b)
	i := create(t, c, "self", self)
	<-g.Fell
	work(t, goworkflows.NewWorker(b, nil), []any{self}, nil)
	if got, err := client.GetWorkflowResult[int](t.Context(), c, i, patience); got != 7 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	past, err := b.GetWorkflowInstanceHistory(t.Context(), i, nil)
	if err != nil {
		t.Fatal(err)
	}
	signals := 0
	for _, e := range past {
		if e.Type == history.EventType_SignalReceived {
			signals++
		}
	}
	if signals != 1 {
		t.Errorf("%d signals", signals)
	}
}
