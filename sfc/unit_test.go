package sfc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/recent"
	"github.com/taktworks/takt/internal/testenv/golden"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

func unitEngine(t testing.TB) *Engine {
	return New(nil, nil, Options{TopicPrefix: "plant", Instance: "engine-1", Log: (&plant{t: t}).log("unit")})
}

// The wire, as a golden file.
func TestCommandOnTheWire(t *testing.T) {
	e := unitEngine(t)
	now := time.Date(2026, 11, 21, 9, 14, 5, 120_000_000, time.UTC)
	correlation := "5d0a3c1e-7f52-4b0e-9a6c-2f8f6f0a9b41"
	c := recipe.Command{
		ID: recipe.CommandID(correlation, "press_bearings", 1, 2), JobID: "JO-7731", Scope: "cell.07", Action: "press_bearings",
		TypeID: "com.acme.cell.press.v1", CorrelationID: correlation, Attempt: 2, Iteration: 1,
		Parameters: json.RawMessage(`{"force_kn": 12.50, "text": "<&>"}`), Deadline: now.Add(44_100 * time.Millisecond),
		Token: recipe.Seed{1}.Token("golden"),
	}
	body, err := encodeBody(c)
	if err != nil {
		t.Fatal(err)
	}
	ev := e.command(c, body, now, now)
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(struct {
		Topic    string
		Event    cloudevent.Event
		Body     string
		Delivery cloudevent.Delivery
	}{e.topic(c.Scope, "commands"), ev, string(body), ev.Delivery}); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/command.json", b.String())
}

// A command expires with its action, never before a second has passed; without deadline it does not expire.
func TestCommandExpires(t *testing.T) {
	e, now := unitEngine(t), time.Now()
	for left, want := range map[time.Duration]int64{
		time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, 20 * time.Second: 20, -time.Second: 1,
	} {
		if got := e.command(recipe.Command{Deadline: now.Add(left)}, nil, now, now).ExpiryInterval; got != want {
			t.Errorf("%v before the deadline it expires after %d s, want %d", left, got, want)
		}
	}
	if got := e.command(recipe.Command{}, nil, now, now).ExpiryInterval; got != 0 {
		t.Errorf("without deadline: %d", got)
	}
}

func TestOptions(t *testing.T) {
	if err := (Options{Instance: "a"}).Validate(); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]Options{
		"Instance":   {},
		"TimerEvery": {Instance: "a", TimerEvery: -1},
		"SweepEvery": {Instance: "a", SweepEvery: 1},
		"Slots":      {Instance: "a", Slots: -1},
		"RouteBytes": {Instance: "a", RouteBytes: -1},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("New takes options that cannot work")
		}
	}()
	New(nil, nil, Options{})
}

// What is remembered is no piece of a document or a message: it would keep all of it in memory.
func TestRoutesKeepNoDocument(t *testing.T) {
	const n, size = 64, 1 << 18
	r, running := newRoutes[string](16<<20), newRoutes[isa95.JobOrderID](16<<20)
	e := &Engine{starts: recent.New[isa95.Scope, lastStart](startBytes)}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range n {
		id, job, scope := fmt.Sprintf("C-%02d", i), fmt.Sprintf("J-%02d", i), fmt.Sprintf("S-%02d", i%4)
		document := id + job + scope + "sha" + strings.Repeat("x", size)
		route := jobstore.Route{JobOrderID: isa95.JobOrderID(document[4:8]), Scope: isa95.Scope(document[8:12]), Recipe: document[12:15]}
		r.put(document[:4], route)
		running.put(route.JobOrderID, route)
		e.rememberStart(route.Scope, isa95.WorkMasterID(document[:4]), []string{document[12:15]})
		if got, ok := r.get(id); !ok || got != route {
			t.Fatalf("%s: %+v", id, got)
		}
	}
	if grown := heap() - before; grown > n*size/10 {
		t.Errorf("%d routes take %d bytes", n, grown)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(running)
	runtime.KeepAlive(e)
}

// The four operations of the Persistence page are told apart by what a commit changed.
func TestOperations(t *testing.T) {
	at := func(step string, active []string, states ...recipe.ActionState) *recipe.Execution {
		x := &recipe.Execution{CurrentStep: step, ActiveSteps: active}
		for i, s := range states {
			x.Actions = append(x.Actions, recipe.ActionEntry{Name: string(rune('a' + i)), State: s})
		}
		return x
	}
	before := at("B", []string{"P", "Q"}, recipe.ActionDispatched, recipe.ActionWaiting)
	ended := at("S", nil, recipe.ActionCompleted, recipe.ActionCompleted)
	ended.Completed = true
	for name, tc := range map[string]struct {
		after *recipe.Execution
		want  []Operation
	}{
		"nothing":         {before, nil},
		"one action":      {at("B", []string{"P", "Q"}, recipe.ActionCompleted, recipe.ActionWaiting), []Operation{OpActionState}},
		"a path ends":     {at("B", []string{"Q"}, recipe.ActionCompleted, recipe.ActionWaiting), []Operation{OpActionState, OpBranchAdvance}},
		"it converges":    {at("S", []string{"S"}, recipe.ActionCompleted, recipe.ActionCompleted), []Operation{OpActionState, OpAdvanceStep}},
		"through the end": {ended, []Operation{OpActionState, OpAdvanceStep, OpFinish}},
	} {
		if diff := cmp.Diff(tc.want, operations(before, tc.after)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Whatever equipment sends, what is taken has a scope that can stand in keys and topics, and a body that is JSON.
func FuzzEvent(f *testing.F) {
	f.Add("1", "urn:cell", "part.v1", "cell-07/cam", "plant/equipment/cell-07/events", []byte(`{}`))
	f.Add("", "", "", "/", "x", []byte("\xff"))
	f.Fuzz(func(t *testing.T, id, source, typ, subject, topic string, data []byte) {
		e := unitEngine(t)
		scope, err := e.checkEvent(cloudevent.Event{
			ID: id, Source: source, Type: typ, Subject: subject, Data: data, Delivery: cloudevent.Delivery{Topic: topic},
		})
		if err != nil {
			return
		}
		if _, err := isa95.ParseScope(string(scope)); err != nil {
			t.Errorf("scope %q: %v", scope, err)
		}
		if topic != "" && topic != "plant/equipment/"+string(scope)+"/events" {
			t.Errorf("scope %q on topic %q", scope, topic)
		}
		if len(data) > 0 && !json.Valid(data) {
			t.Errorf("body %q", data)
		}
	})
}
