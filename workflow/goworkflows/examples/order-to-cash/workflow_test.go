package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cschleiden/go-workflows/tester"
	"github.com/cschleiden/go-workflows/workflow"
)

// rehearsal has the real activities with books of the test, but for those of the machine. The tester replays the workflow's history at every step, and lets time pass at once.
type rehearsal struct {
	activities
	wt     tester.WorkflowTester[Outcome]
	posted func(id string) // what the machine does

	mu  sync.Mutex
	did []string
}

func (r *rehearsal) Post(_ context.Context, _ Order, _ int, id string) (string, error) {
	r.note("post " + id)
	r.posted(id)
	return "", nil
}

func (r *rehearsal) TakeBack(_ context.Context, id string) (string, error) {
	r.note("abort " + id)
	return "", nil
}

func (r *rehearsal) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, what)
}

// result is what the bridge signals.
func (r *rehearsal) result(id, why string) {
	r.wt.SignalWorkflow(id, Result{JobOrder: id, Made: why == "", Why: why})
}

// rehearse runs an order of covers, one line for each quantity, to its end.
func rehearse(t *testing.T, customer string, quantities []int, machine func(r *rehearsal, id string)) (*rehearsal, Outcome) {
	t.Helper()
	r := &rehearsal{wt: tester.NewWorkflowTester[Outcome](orderToCash)}
	r.activities = activities{books: books{t.TempDir()}, did: r.note}
	r.posted = func(id string) { machine(r, id) }
	if err := r.wt.Registry().RegisterActivity(r); err != nil {
		t.Fatal(err)
	}
	o := Order{Number: "SO-1", Customer: customer, Terms: Terms{Promise: time.Hour, GiveUp: 24 * time.Hour, BackOff: time.Minute, Tries: 3}}
	for _, n := range quantities {
		o.Lines = append(o.Lines, Line{Product: "cover", Quantity: n, Price: 120})
	}
	r.wt.Execute(t.Context(), o)
	end, err := r.wt.WorkflowResult()
	if err != nil {
		t.Fatal(err)
	}
	return r, end
}

func (r *rehearsal) wants(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.did, want) {
		t.Errorf("it did\n  %s\nwant\n  %s", strings.Join(r.did, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestDelivered(t *testing.T) {
	r, end := rehearse(t, "ada", []int{2}, func(r *rehearsal, id string) { r.result(id, "") })
	if !end.Delivered {
		t.Errorf("%+v", end)
	}
	r.wants(t, "credit SO-1", "post SO-1.1.1", "shipment SO-1", "invoice SO-1")
}

// A job order that fails is tried again as another one, after one minute and after two.
func TestTriedAgain(t *testing.T) {
	var posted []time.Time
	r, end := rehearse(t, "ada", []int{1}, func(r *rehearsal, id string) {
		posted = append(posted, r.wt.Now())
		why := "the cutter broke"
		if id == "SO-1.1.3" {
			why = ""
		}
		r.result(id, why)
	})
	if !end.Delivered {
		t.Errorf("%+v", end)
	}
	r.wants(t, "credit SO-1", "post SO-1.1.1", "post SO-1.1.2", "post SO-1.1.3", "shipment SO-1", "invoice SO-1")
	for i, want := range []time.Duration{time.Minute, 2 * time.Minute} {
		if got := posted[i+1].Sub(posted[i]); got < want || got > want+10*time.Second {
			t.Errorf("back-off %d is %v, want %v", i, got, want)
		}
	}
}

// One line fails for good while the other is at the machine: that one is taken back, and only that one.
func TestCompensated(t *testing.T) {
	r, end := rehearse(t, "ada", []int{1, 2}, func(r *rehearsal, id string) {
		if strings.HasPrefix(id, "SO-1.2") {
			r.result(id, "the cutter broke")
		}
	})
	if want := "cover failed 3 times, at last because the cutter broke"; end.Delivered || end.Why != want {
		t.Errorf("%+v, want %q", end, want)
	}
	i := slices.Index(r.did, "abort SO-1.1.1")
	if i < 0 || !slices.Equal(r.did[i:], []string{"abort SO-1.1.1", "release SO-1", "apology SO-1"}) {
		t.Errorf("it did %q", r.did)
	}
}

// Nothing is heard of a job order: the customer is told after an hour, and the order is cancelled after a day more.
func TestGivesUp(t *testing.T) {
	r, end := rehearse(t, "ada", []int{1}, func(*rehearsal, string) {})
	if end.Delivered || !strings.Contains(end.Why, "no result after 25h0m0s") {
		t.Errorf("%+v", end)
	}
	r.wants(t, "credit SO-1", "post SO-1.1.1", "delay SO-1", "abort SO-1.1.1", "release SO-1", "apology SO-1")
}

// Somebody cancels the order while it is at the machine.
func TestCancelled(t *testing.T) {
	r, end := rehearse(t, "ada", []int{1}, func(r *rehearsal, _ string) { r.wt.CancelWorkflow() })
	if end.Delivered || end.Why != "it was cancelled" {
		t.Errorf("%+v", end)
	}
	r.wants(t, "credit SO-1", "post SO-1.1.1", "abort SO-1.1.1", "release SO-1", "apology SO-1")
}

// What the customer cannot pay is not made, and what nobody sells is not even looked at.
func TestRefused(t *testing.T) {
	r, end := rehearse(t, "cyd", []int{100}, func(*rehearsal, string) {})
	if !strings.Contains(end.Why, "beyond the credit of cyd") {
		t.Errorf("%+v", end)
	}
	r.wants(t, "apology SO-1")
	if _, err := r.Check(t.Context(), Order{Lines: []Line{{Product: "cover", Price: 1}}}); err == nil || workflow.CanRetry(workflow.NewError(err)) {
		t.Errorf("a wrong price: %v", err)
	}
}

// The office that does not answer is asked again.
func TestPatience(t *testing.T) {
	r, end := rehearse(t, "bob", []int{1}, func(r *rehearsal, id string) { r.result(id, "") })
	if !end.Delivered {
		t.Errorf("%+v", end)
	}
	r.wants(t, "credit SO-1", "post SO-1.1.1", "shipment SO-1", "invoice SO-1")
}

// The books answer a repeat as the first time.
func TestBooks(t *testing.T) {
	b := books{t.TempDir()}
	for _, text := range []string{"one", "two"} {
		if got, err := b.once("invoice SO-1", text); got != "one" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, there, err := b.find("invoice SO-2"); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	if _, err := (books{b.dir + "/none"}).once("invoice SO-1", "one"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}
