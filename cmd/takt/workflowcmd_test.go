package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflowhistory"
)

// What cannot be an instance, a queue, a time or a size is a usage error that names it, before Redis is asked for anything.
func TestWorkflowNamesThatAreNone(t *testing.T) {
	t.Chdir(t.TempDir())
	long := strings.Repeat("x", 129)
	for _, test := range []struct {
		args string // words, tabs between them
		says string
	}{
		{"list\t--queue\ta b", `queue "a b"`},
		{"list\t--queue\t", `queue ""`},
		{"watch\t--queue\tq*", `queue "q*"`},
		{"pause\t--queue\t" + long, "at most 128 bytes"},
		{"list\t--id\t", `instance ""`},
		{"list\t--state\tdone", "--state"},
		{"list\t--outcome\tlost", "--outcome"},
		{"list\t--limit=-1", "--limit is -1"},
		{"list\t--after\torder-1", `--after is "order-1"`},
		{"list\t--after\torder-1:", `--after is "order-1:"`},
		{"list\t--created-after\tsoon", `"soon": must be how long ago`},
		{"list\t--created-before=-1h", `"-1h": must not be negative`},
		{"show\t", `instance ""`},
		{"show\t" + long, "at most 128 bytes"},
		{"show\torder-1\t--events=-1", "--events is -1"},
		{"history\torder-1\t--after=-1", "--after is -1"},
		{"signal\t" + long + "\tgo", "at most 128 bytes"},
		{"signal\torder-1\t", "name of the signal has 0 bytes"},
		{"signal\torder-1\t" + long, "name of the signal has 129 bytes"},
		{"signal\torder-1\tgo\t--id\t" + long, "--id has 129 bytes"},
		{"signal\torder-1\tgo\t--id\t", "--id has 0 bytes"},
		{"signal\torder-1\tgo\t--arg\thello", `--arg "hello": no JSON`},
		{"signal\torder-1\tgo\t--arg\t", "--arg has 0 bytes"},
		{"signal\torder-1\tgo\t--arg\t@nowhere.json", "no such file"},
		{"terminate\torder-1\t--reason\t" + strings.Repeat("x", 1025), "--reason has 1025 bytes"},
		{"terminate\torder-1\t--reason\t", "--reason has 0 bytes"},
		{"remove", "name an instance, or say --ended-before"},
		{"remove\torder-1\t--ended-before\t1h", "name an instance, or say --ended-before"},
		{"pause", "name an instance or a --queue"},
		{"resume\torder-1\t--queue\tq", "name an instance or a --queue"},
		{"list\t--shards\t0", `--shards is "0": must be 1 to 256`},
		{"list\t--shards\t257", `--shards is "257": must be 1 to 256`},
		{"list\t--workflow-retention\t1ms", "--workflow-retention"},
		{"check\t--grace=-1s", "--grace is -1s"},
		{"stats", "no Redis is named"},
	} {
		code, out, errOut := takt(append([]string{"workflow"}, strings.Split(test.args, "\t")...)...)
		if code != exitUsage || !strings.Contains(errOut, test.says) {
			t.Errorf("takt workflow %.80q: exit status %d, want %d and %q\n%s%s", test.args, code, exitUsage, test.says, out, errOut)
		}
	}
}

// A signal may be as large as an event, and not larger.
func TestSignalFromInput(t *testing.T) {
	var out, errOut bytes.Buffer
	args := []string{"workflow", "signal", "order-1", "go", "--arg", "-", "--redis", "redis://127.0.0.1:1"}
	if code := run(args, strings.NewReader(`"`+strings.Repeat("x", maxData)+`"`), &out, &errOut); code != exitUsage || !strings.Contains(errOut.String(), "--arg has") {
		t.Errorf("exit status %d: %s", code, errOut.String())
	}
	if code := run(args, strings.NewReader(`{"a":1}`), &out, &errOut); code != exitNoAnswer {
		t.Errorf("exit status %d: %s", code, errOut.String())
	}
}

// An id may have colons: then a name may mean the execution or the instance.
func TestExecutionWords(t *testing.T) {
	for text, want := range map[execution]string{"a": "a|", "a:x": "a|x", "a:b:x": "a:b|x", "a:b:": "a:b|"} {
		i, named := text.instance()
		if got := i.ID + "|" + i.Execution; got != want || named != strings.Contains(string(text), ":") {
			t.Errorf("%q: %q, %v, want %q", text, got, named, want)
		}
	}
	for text, good := range map[string]bool{"a": true, "a:x": true, ":x": true, "": false, "a\n:x": false, ":": true} {
		var e execution
		if err := e.UnmarshalText([]byte(text)); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMoment(t *testing.T) {
	var m moment
	if err := m.UnmarshalText([]byte("2h")); err != nil || time.Since(m.Time)-2*time.Hour > time.Minute {
		t.Errorf("%v, %v", m, err)
	}
	if err := m.UnmarshalText([]byte("2026-11-01T00:00:00Z")); err != nil || m.Format(time.DateOnly) != "2026-11-01" {
		t.Errorf("%v, %v", m, err)
	}
	if err := m.UnmarshalText([]byte("2026-11-01T00:00:00+24:00")); err == nil {
		t.Errorf("an offset of a day was taken: %v", m)
	}
}

// Flags that are times read RFC 3339, not the layout of time.Parse.
func TestTimesOnTheCommandLine(t *testing.T) {
	for _, text := range []string{"2026-11-01T00:00:00+24:00", "2026-11-01T0:00:00Z", "2026-11-01T00:00:00,5Z"} {
		for _, args := range [][]string{{"task", "submit", "x:Y", "--at", text}, {"schedule", "add", "n", "x:Y", "every 1h", "--anchor", text}, {"task", "dead", "list", "--since", text}} {
			code, _, errOut := takt(append(args, "--redis", "redis://127.0.0.1:1")...)
			if code != exitUsage || !strings.Contains(errOut, "want an RFC 3339 time") || !strings.Contains(errOut, text) {
				t.Errorf("%q: %d %s", args, code, errOut)
			}
		}
	}
}

// People see a value on one line, without escape sequences, and cut.
func TestShortValue(t *testing.T) {
	for value, want := range map[string]string{"": "", `{"a":1}`: `{"a":1}`, "{broken \x1b[31m": `"{broken \x1b[31m"`, "a  b": "a b"} {
		if got := shortValue(value); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
	if got := []rune(shortValue(strings.Repeat("é", 500))); len(got) != shortest || got[shortest-1] != '…' {
		t.Errorf("%d characters: %s", len(got), string(got))
	}
}

// A table has its columns also where an event has no data, and go-workflows' empty metadata are not shown.
func TestShowWorkflow(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	v := workflowView{last: []workflowhistory.Entry{{Sequence: 9, Type: "TaskStarted"}, {Sequence: 10, Type: "ActivityCompleted", Ref: 1, Name: "Pay", Value: "1"}}}
	v.ID, v.State, v.Metadata = "order-1", workflow.Finished, []byte("{}")
	if err := a.showWorkflow(&v); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	events := lines[len(lines)-3:]
	for i, want := range []string{"VALUE", "-", "1"} {
		if at := strings.Index(events[0], "VALUE"); !strings.HasSuffix(events[i], want) || len(events[i]) != at+len(want) {
			t.Errorf("values are not in their column: %q", events)
		}
	}
	if strings.Contains(out.String(), "metadata") {
		t.Errorf("empty metadata are shown: %s", out.String())
	}
}

// What an execution waits for is one line, whatever holds it back.
func TestStanding(t *testing.T) {
	at := func(d workflow.Detail) workflow.Detail {
		d.Info = workflow.Info{Instance: workflow.Instance{ID: "order-1"}, Queue: "q", State: workflow.Active}
		return d
	}
	for want, d := range map[string]workflow.Detail{
		"":                               {},
		"waits at its gate for its turn": at(workflow.Detail{AtGate: true}),
		"waits at its gate, and is paused: takt workflow resume order-1": at(workflow.Detail{AtGate: true, Paused: true}),
		"its task runs on w-1":                                                  at(workflow.Detail{Task: workflow.Running, TaskWorker: "w-1"}),
		"its task runs on w-1, then it is paused":                               at(workflow.Detail{Task: workflow.Running, TaskWorker: "w-1", Paused: true}),
		"paused: takt workflow resume order-1":                                  at(workflow.Detail{Paused: true, ManyTimers: 1}),
		"its task is held, the queue is paused: takt workflow resume --queue q": at(workflow.Detail{Task: workflow.Held}),
		"its task waits for a worker of queue q":                                at(workflow.Detail{Task: workflow.Waiting}),
		"waits for a signal, or another instance":                               at(workflow.Detail{}),
		"waits: open activities 2, timers 1":                                    at(workflow.Detail{ManyOpen: 2, ManyTimers: 1}),
	} {
		if got := standing(&d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// At a terminal an answer is needed; without one --yes is.
func TestConfirm(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, "Yes\n": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		var errOut bytes.Buffer
		a := &app{in: strings.NewReader(answer), err: &errOut}
		err := a.ask("this removes 3 executions")
		var exit *exitError
		if (err == nil) != yes || err != nil && (!errors.As(err, &exit) || exit.Code != exitFailed) || errOut.String() != "this removes 3 executions. Do it? [y/N] " {
			t.Errorf("%q: %v; asked %q", answer, err, errOut.String())
		}
		if err := a.confirm(false, "this"); !errors.As(err, &exit) || exit.Code != exitUsage || !strings.Contains(err.Error(), "--yes") {
			t.Errorf("without a terminal: %v", err)
		}
		if err := a.confirm(true, "this"); err != nil {
			t.Error(err)
		}
	}
}

// Errors of the package have the exit codes of all commands.
func TestWorkflowErrors(t *testing.T) {
	for code, errs := range map[int][]error{
		exitUsage:   {&workflow.NameError{}, &workflow.EventError{}},
		exitRefused: {workflow.ErrNotFound, workflow.ErrNotFinished},
	} {
		for _, err := range errs {
			var exit *exitError
			if got := exitOf(fmt.Errorf("so: %w", err), "takt workflow list"); !errors.As(got, &exit) || exit.Code != code || !errors.Is(got, err) && code == exitRefused {
				t.Errorf("%v: %v, want exit status %d", err, got, code)
			}
		}
	}
	if err := exitOf(nil, ""); err != nil {
		t.Error(err)
	}
}
