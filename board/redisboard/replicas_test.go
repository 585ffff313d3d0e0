package redisboard_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// lasting opens the board with a wait for one replica.
func (w *bench) lasting(within time.Duration) *board.Board {
	w.Helper()
	b, err := board.Connect{URL: w.URL + "?namespace=" + w.namespace, Replicas: 1, ReplicasWithin: within, Log: slog.New(slog.NewTextHandler(w.Output(), nil))}.Open(w.ctx)
	w.must(err)
	w.closing(b)
	return b
}

// short fails the test unless err says that the one replica did not acknowledge what was done.
func (w *bench) short(what string, err error) {
	w.Helper()
	var short *board.ReplicasError
	if !errors.As(err, &short) || short.Want != 1 || short.Acknowledged != 0 || short.Err != nil {
		w.Errorf("%s, with a replica that hangs: %v", what, err)
	}
}

// Who posts, claims and finishes has an answer only when the replica has it. A repetition changes nothing and waits again.
func TestReplicas(t *testing.T) {
	long.Test(t, "runs a replica")
	w := newBench(t)
	replica := testenv.StartReplica(t, w.Addr)
	hasty, patient := w.lasting(50*time.Millisecond), w.lasting(patience)
	ends := map[string]func(*board.Claim) error{
		"consume":       func(c *board.Claim) error { return c.Consume(w.ctx) },
		"abandon":       func(c *board.Claim) error { return c.Abandon(w.ctx) },
		"trash":         func(c *board.Claim) error { return c.Trash(w.ctx) },
		"consume batch": func(c *board.Claim) error { return hasty.ConsumeBatch(w.ctx, []*board.Claim{c}) },
	}
	claims := map[string]*board.Claim{}
	for name := range ends {
		p, err := patient.Post(w.ctx, board.Draft{Name: name})
		w.must(err)
		w.soon("the claim is acknowledged", func() bool { // one that is not is given back
			claims[name], err = hasty.Claim(w.ctx, p, "w", board.ClaimOptions{})
			return err == nil
		})
	}
	before := w.count()

	replica.Pause(t)
	draft := board.Draft{Name: "new", UUID: "0b7da2c7-1235-4ade-86b0-1a569887709b"}
	var posted *board.Posting
	for range 2 {
		p, err := hasty.Post(w.ctx, draft)
		w.short("post", err)
		if p == nil || p.UUID != draft.UUID || p.Sequence == 0 {
			t.Fatalf("the posting that is there is returned as %+v", p)
		}
		posted = p
	}
	if n := w.count(); n != before+1 {
		t.Errorf("%d postings instead of %d", n, before+1)
	}
	for range 3 {
		_, err := hasty.Claim(w.ctx, posted, "w", board.ClaimOptions{})
		w.short("claim", err)
		if r := w.find(posted); r.State != board.Unclaimed {
			t.Errorf("after a claim that the replica does not have the posting is %s", r.State)
		}
	}
	_, err := hasty.Claim(w.ctx, posted, "named", board.ClaimOptions{ExactOwner: true, Reclaim: true})
	w.short("reclaim", err)
	if r := w.find(posted); r.Owner != "named" {
		t.Errorf("a claim that may be an older one was given back: the owner is %q", r.Owner)
	}
	for name, end := range ends {
		for range 2 {
			w.short(name, end(claims[name]))
		}
		if claims[name].Context().Err() == nil {
			t.Errorf("%s: the claim still counts as ours", name)
		}
	}
	_, err = hasty.Claim(w.ctx, claims["consume"].Posting(), "w", board.ClaimOptions{})
	w.is(err, board.ErrNotFound) // a refusal changes nothing, and needs no replica
	if err := hasty.Consume(w.ctx, claims["consume"].Posting(), "other"); !errors.Is(err, board.ErrNotFound) || strings.Contains(err.Error(), "replica") {
		t.Errorf("finishing what is gone: %v", err)
	}

	replica.Continue(t)
	for name, end := range ends {
		w.soon(name+" is acknowledged", func() bool { return end(claims[name]) == nil })
	}
	w.must(patient.Abandon(w.ctx, posted, "named"))
	w.soon("the post is acknowledged", func() bool { _, err := hasty.Post(w.ctx, draft); return err == nil })
	c := w.claim(patient, posted, board.ClaimOptions{})
	if c.Attempt() != 2 { // after that of "named": those that were given back do not count
		t.Errorf("it is claim %d of the posting, instead of the second", c.Attempt())
	}
	w.must(c.Consume(w.ctx))
	if n := w.count(); n != 1 { // the abandoned one
		t.Errorf("%d postings are left", n)
	}
}

// A conductor works on nothing whose claim the replica does not have, and goes on as soon as that answers. When the replica does not have the end of a posting, nothing is done twice.
func TestReplicasConductor(t *testing.T) {
	long.Test(t, "runs a replica")
	w := newBench(t)
	replica := testenv.StartReplica(t, w.Addr)
	refused := make(chan struct{}, 100)
	var outcomes []board.Outcome
	o := board.ConductorOptions{MaxDispatches: 1, Observe: func(e board.ConductorEvent) { outcomes = append(outcomes, e.Outcome) }, Log: slog.New(slog.NewTextHandler(lines(func(line string) {
		if strings.Contains(line, "cannot claim") && strings.Contains(line, "0 of 1 replicas") {
			refused <- struct{}{}
		}
	}), nil))}
	b := w.lasting(20 * time.Millisecond)
	w.post("one")
	replica.Pause(t)
	started := make(chan int, 1)
	c, err := b.Conductor(func(_ context.Context, claim *board.Claim) error {
		replica.Pause(t)
		started <- claim.Attempt()
		return nil
	}, o)
	w.must(err)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(w.ctx) }()
	for range 3 {
		<-refused
	}
	select {
	case <-started:
		t.Error("it worked on what a failover would give to another")
	default:
	}
	replica.Continue(t)
	if attempt := <-started; attempt != 1 {
		t.Errorf("it is attempt %d", attempt)
	}
	w.must(<-ended)
	if want := []board.Outcome{board.Started, board.Consumed}; !slices.Equal(outcomes, want) || w.count() != 0 {
		t.Errorf("it went %s, %d are left", outcomes, w.count())
	}
	replica.Continue(t)
}

func TestReplicasOptions(t *testing.T) {
	for want, c := range map[string]board.Connect{
		"Options.Replicas is -1":         {URL: "redis://127.0.0.1:1", Replicas: -1},
		"Options.ReplicasWithin is -1ns": {URL: "redis://127.0.0.1:1", ReplicasWithin: -1},
		"must be 0 on ZooKeeper":         {URL: "zookeeper://127.0.0.1:1/jobs", Replicas: 1},
		"must be false on ZooKeeper":     {URL: "zookeeper://127.0.0.1:1/jobs", WaitForDisk: true},
		"Options.WaitForDisk":            {URL: testenv.Redis(t).URL, WaitForDisk: true}, // it has no append-only file
	} {
		if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

// lines is a writer that hands each line of a log on.
type lines func(line string)

func (l lines) Write(p []byte) (int, error) { l(string(p)); return len(p), nil }
