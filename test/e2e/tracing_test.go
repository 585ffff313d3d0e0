package e2e_test

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/internal/testenv/otlp"
	"github.com/taktworks/takt/test/rig"
)

// awaitSpan waits for a span.
func awaitSpan(t *testing.T, c *otlp.Collector, name string) (s otlp.Span) {
	t.Helper()
	testenv.Eventually(t, "the span "+name, func() (there bool) {
		s, there = c.Find(name)
		return there
	})
	return s
}

// Whoever called takt task submit, the submission, the run in another process, and the command that it runs are in one trace.
func TestOneTraceAcrossProcesses(t *testing.T) {
	long.Test(t, "waits for the spans of other processes")
	t.Parallel()
	s := newTaskShell(t)
	c := otlp.NewCollector(t)
	worker := s.worker("--name", "test:Traced", "--exec", `echo "$TRACEPARENT"`, "--trace-endpoint", c.URL, "--trace-service", "workers")
	const trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	r := rig.RunCommand(t, rig.Command{
		Args: s.flags([]string{"task", "submit", "test:Traced", "--wait"}),
		Env:  []string{"TRACEPARENT=00-" + trace + "-" + caller + "-01", "TAKT_TRACE_ENDPOINT=" + c.URL},
	})
	submitted, ran := awaitSpan(t, c, "task.submit test:Traced"), awaitSpan(t, c, "task.execute test:Traced")
	if submitted.Service != "takt" || hex.EncodeToString([]byte(submitted.Trace)) != trace || hex.EncodeToString([]byte(submitted.Parent)) != caller {
		t.Errorf("submission %+v", submitted)
	}
	if ran.Service != "workers" || ran.Trace != submitted.Trace || ran.Parent != submitted.ID || ran.Attributes["service.instance.id"] == submitted.Attributes["service.instance.id"] {
		t.Errorf("run %+v of %+v", ran, submitted)
	}
	if want := fmt.Sprintf("00-%s-%x-01", trace, ran.ID); r.Code != ok || !strings.Contains(r.Stdout, want) {
		t.Errorf("exit status %d, the command was in %s, want %s", r.Code, r.Stdout, want)
	}
	worker.Stop()
}

// The slots of a scheduler and the commands that takt serve takes are spans, too.
func TestSpansOfSchedulesAndCommands(t *testing.T) {
	long.Test(t, "waits for the spans of other processes")
	t.Parallel()
	c := otlp.NewCollector(t)
	s := newTaskShell(t)
	s.run(ok, "schedule", "add", "tick", "test:Tick", "every 1h")
	rig.Start(t, s.flags([]string{"schedule", "serve", "--trace-endpoint", c.URL})...).Await("scheduler is up")
	id := s.run(ok, "schedule", "run", "tick")
	if got := awaitSpan(t, c, "task.schedule tick"); got.Attributes["task.id"] != id || got.Attributes["task.outcome"] != "ok" {
		t.Errorf("%+v, want task %s", got, id)
	}
	w := rig.New(t, rig.Options{NoStation: true})
	w.Serve("a", "--trace-endpoint", c.URL)
	if r := w.Takt("station", "apply", filepath.Join(rig.Cell(t, 1, "1h"), "station.yaml")); r.Code != ok {
		t.Fatalf("%+v", r)
	}
	w.Takt("job", "start", "JO-9", "--scope", string(rig.Scope))
	if got := awaitSpan(t, c, "takt.command Start"); got.Attributes["takt.status"] == "" {
		t.Errorf("%+v", got)
	}
}

// A collector that is not there costs nothing but a line in the log; an endpoint that is none is said at once.
func TestNoCollector(t *testing.T) {
	long.Test(t, "waits for a collector that is not there")
	t.Parallel()
	s := newTaskShell(t)
	worker := s.worker("--name", "test:Cat", "--exec", "cat", "--trace-endpoint", "http://127.0.0.1:1")
	if got := s.run(ok, "task", "submit", "test:Cat", "7", "--wait", "--trace-endpoint", "http://127.0.0.1:1"); got != "[7]" {
		t.Errorf("result %s", got)
	}
	worker.Await("traces are not sent")
	worker.Stop()
	s.run(usage, "task", "submit", "test:Cat", "--trace-endpoint", "collector:4317")
	s.run(usage, "task", "run", "--name", "x", "--exec", "true", "--trace-endpoint", "http://u:p@h")
	s.run(usage, "schedule", "serve", "--trace-endpoint", "http://h", "--trace-service", "")
	s.run(usage, "task", "submit", "test:Cat", "--trace-endpoint", "http://h", "--trace-ratio", "2")
}
