package task_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/task"
)

// A task waits where its type says, however it is submitted, and where the submission says otherwise.
func TestSubmitKeepsQueue(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[double, int]("test:T", task.Positional(), task.Realtime, task.Large)
	send(e, typ, double{1})
	sendMany(e, typ, []double{{1}, {2}})
	send(e, typ, double{1}, task.Key("k"))
	e.counts(4, "XLEN", e.key("tasks:realtime:large"))
	h := send(e, typ, double{1}, task.Background, task.Small)
	if h.Queue != "background:small" || e.number("XLEN", e.key("tasks:background:small")) != 1 {
		t.Errorf("in %s", h.Queue)
	}
	h = send(e, typ, double{1}, task.In(time.Hour))
	if h.Entry != "" || h.Due.IsZero() || e.number("ZCARD", e.key("tasks:delayed")) != 1 {
		t.Errorf("delayed: %+v", h.Ref)
	}
}

// The bytes in the stream are the five fields of the page, so that Python peers read them.
func TestSubmitWire(t *testing.T) {
	e := newEnv(t)
	send(e, Double, double{7}, task.ID("abc"), task.WithLabels(map[string]string{"who": "me"}))
	entries, err := e.must("XRANGE", e.key("tasks:normal:medium"), "-", "+").AsXRange()
	if err != nil || len(entries) != 1 || len(entries[0].FieldValues) != 1 {
		t.Fatal(entries, err)
	}
	want := "85" + "a77461736b5f6964" + "a3616263" + "a97461736b5f6e616d65" + "ab746573743a446f75626c65" +
		"a66c6162656c73" + "83" + "a87072696f72697479" + "a66e6f726d616c" + "a473697a65" + "a66d656469756d" + "a377686f" + "a26d65" +
		"a97461736b5f61726773" + "9107" + "ab7461736b5f6b7761726773" + "80"
	if got := hex.EncodeToString([]byte(entries[0].FieldValues["data"])); got != want {
		t.Errorf("message\n%s, want\n%s", got, want)
	}
}

// Bad submissions are refused with the field and the rule, and change nothing.
func TestSubmitRefuses(t *testing.T) {
	e := newEnv(t)
	c := e.connect(task.Options{MaxMessage: 500})
	for want, opts := range map[string][]task.SubmitOption{
		`"urgent:me`:   {task.Priority("urgent")},
		`:Tiny"`:       {task.Size("Tiny")},
		`":medium"`:    {task.Priority("")},
		"id":           {task.ID(strings.Repeat("x", 129))},
		"key":          {task.Key("")},
		"label":        {task.WithLabels(map[string]string{"": "x"})},
		"Takt's own":   {task.WithLabels(map[string]string{"_interactive": "1"})},
		"the name is":  {task.WithLabels(map[string]string{"vo": "x"})},
		"1024":         {task.WithLabels(map[string]string{"x": strings.Repeat("x", 1025)})},
		"between 1970": {task.At(time.Unix(-5, 0))},
		"unique key":   {task.UniqueKey("a\nb", 0)},
		"is negative":  {task.UniqueKey("a", -1)},
		"too large":    {task.WithLabels(map[string]string{"a": strings.Repeat("x", 1000)})},
		"In -1h":       {task.In(-time.Hour)},
		"At 0001":      {task.At(time.Time{})},
		"Deadline ":    {task.Deadline(time.Unix(-1, 0))},
		"UniqueKey is": {task.UniqueKey("", 0)},
		"and an ID":    {task.ID("x"), task.Key("k")},
		`id ""`:        {task.ID("")},
		"want one":     {task.Key("k"), task.ID("x")},
		"32": {task.WithLabels(func() map[string]string {
			m := map[string]string{}
			for i := range 33 {
				m[fmt.Sprint("l", i)] = ""
			}
			return m
		}())},
	} {
		says(t, "", errOf(Double.Submit(e.ctx(), c, double{}, opts...)), want)
	}
	refused(t, "SubmitMany with an ID: accepted", errOf(Double.SubmitMany(e.ctx(), c, []double{{1}, {2}}, task.ID("x"))))
	same(t, e.left(), 0)
	if all, _ := e.srv.AllKeys(e.ctx()); len(all) != 0 {
		t.Errorf("keys %v", all)
	}
}

// A repeat with the same key, or id, is one task; the answer is the same.
func TestKeyMakesOneTask(t *testing.T) { testKeyMakesOneTask(t, newEnv(t)) }

func testKeyMakesOneTask(t *testing.T, e *env) {
	first := send(e, Double, double{1}, task.Key("order-7"))
	again := send(e, Double, double{1}, task.Key("order-7"))
	if again.Ref != first.Ref || !again.Existing || first.Existing {
		t.Errorf("%+v, then %+v", first, again)
	}
	one := send(e, Double, double{1}, task.ID("my-id"), task.In(time.Hour))
	two := send(e, Double, double{1}, task.ID("my-id"), task.In(time.Hour))
	if one.Ref != two.Ref || one.ID != "my-id" {
		t.Errorf("%+v, then %+v", one, two)
	}
	same(t, e.left(), 2)
}

// Unique: one at a time with the same arguments, until it has ended.
func TestUnique(t *testing.T) { testUnique(t, newEnv(t)) }

func testUnique(t *testing.T, e *env) {
	typ := task.Define[double, int]("test:Unique", task.Positional(), task.Unique(time.Hour))
	by := task.Define[double, int]("test:By", task.Positional(), task.UniqueBy(0, func(d double) string { return "same" }))
	first := send(e, typ, double{1})
	_, err := typ.Submit(e.ctx(), e.client, double{1})
	var d *task.DuplicateError
	if !errors.As(err, &d) || d.ID != first.ID {
		t.Errorf("second: %v", err)
	}
	send(e, typ, double{2})
	send(e, by, double{1})
	if _, err := by.Submit(e.ctx(), e.client, double{2}); !errors.As(err, &d) {
		t.Errorf("by key: %v", err)
	}
	same(t, e.queued(), 3)
}

// Each submission is one round trip, whatever it needs; a batch of 256 is one, too.
func TestSubmitRoundTrips(t *testing.T) {
	e := newEnv(t)
	c, proxy := e.behind()
	e.ok(errOf(Double.Submit(e.ctx(), c, double{}, task.Key("warm"))))
	for name, submit := range map[string]func() error{
		"one":     func() error { _, err := Double.Submit(e.ctx(), c, double{}); return err },
		"delayed": func() error { _, err := Double.Submit(e.ctx(), c, double{}, task.In(time.Hour)); return err },
		"key":     func() error { _, err := Double.Submit(e.ctx(), c, double{}, task.Key(name())); return err },
		"unique":  func() error { _, err := Double.Submit(e.ctx(), c, double{}, task.UniqueKey(name(), 0)); return err },
		"batch":   func() error { _, err := Double.SubmitMany(e.ctx(), c, make([]double, 256)); return err },
	} {
		before := proxy.Trips()
		e.ok(submit())
		if n := proxy.Trips() - before; n != 1 {
			t.Errorf("%s: %d round trips, want 1", name, n)
		}
	}
}

var names int

func name() string { names++; return fmt.Sprint("n", names) }

func TestRef(t *testing.T) {
	for _, r := range []task.Ref{
		{ID: "a/b", Queue: "normal:medium", Entry: "1-2"},
		{ID: "a", Queue: "realtime:small", Due: time.UnixMilli(1234567890123)},
		{ID: "abc"},
		{ID: "order/2026/0042"}, {ID: "../x"}, {ID: "a:b/1-1/c"}, {ID: "/"}, {ID: "order/17", Queue: "background:line-3", Entry: "1-2"},
	} {
		text := r.String()
		got, err := task.ParseRef(text)
		if err != nil || !got.Due.Equal(r.Due) || got.ID != r.ID || got.Entry != r.Entry || got.Queue != r.Queue {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"normal:medium/zzz/id", "normal:medium//id", "normal:medium/1/id", "normal:medium/1-/id", "normal:medium/1-2-3/id", "normal:medium/-1/id", "normal:medium/+1-0/id"} {
		says(t, text, errOf(task.ParseRef(text)), "the entry ")
	}
	if text := (task.Ref{ID: "parked", Queue: "normal:medium"}).String(); text != "parked" {
		t.Errorf("a task that is in no queue and due at no time: %s", text)
	}
	for text, want := range map[string]string{
		"": "id", "normal:medium/@x/a": "the due time", "normal:medium/1-1/": "id",
		"normal:medium/17": `task "normal:medium/17": with its queue it is QUEUE/ENTRY/ID, or QUEUE/@DUE/ID if it is delayed: copy it from takt task list, or write the id alone, as in "17"`,
	} {
		says(t, text, errOf(task.ParseRef(text)), want)
	}
}

// Each id is accepted and found by itself, or refused.
func TestAcceptedIDsAreFound(t *testing.T) {
	e := newEnv(t)
	typ := task.Define[string, string]("test:IDs")
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.StringOfN(rapid.SampledFrom([]rune("/:@-_.ab10 é")), 1, 20, -1).Draw(rt, "id")
		if rapid.Bool().Draw(rt, "like a place") {
			id = "normal:small/" + id
		}
		h, err := typ.Submit(e.ctx(), e.client, "x", task.ID(id))
		if err != nil {
			return
		}
		for _, text := range []string{id, h.String()} {
			ref, err := task.ParseRef(text)
			if err != nil {
				rt.Fatalf("id %q is accepted, but %v", id, err)
			}
			if ref.ID != id {
				rt.Fatalf("%q is the id %q, want %q", text, ref.ID, id)
			}
		}
	})
}

// Times below a millisecond are one: 0 would be a time to live that Redis refuses after half of a script is done.
func TestTimesBelowAMillisecond(t *testing.T) {
	e := newEnv(t)
	short := 500 * time.Microsecond
	typ := task.Define[int, int]("test:Short", task.Small, task.Retention(short))
	ran := make(chan int, 10)
	e.start(task.WorkerOptions{}, typ.Handle(func(_ context.Context, j *task.Job[int]) (int, error) { ran <- j.Args; return 1, nil }))
	send(e, typ, 1)
	send(e, typ, 2, task.UniqueKey("k", short))
	send(e, typ, 3, task.Keep(short), task.RunTimeout(time.Hour))
	for range 3 {
		wait(t, "run", ran)
	}
	e.idle()
	c := e.connect(task.Options{KnownFor: short})
	if _, err := typ.Submit(e.ctx(), c, 4, task.Key("known")); err != nil {
		t.Error(err)
	}
	wait(t, "run", ran)
	e.idle()
}
