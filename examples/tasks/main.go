// Command tasks shows what tasks can do, in a few seconds: periodic tasks, fan-out and fan-in, limits and locks, retries and dead letters.
//
//	go run ./examples/tasks                                    # Redis inside the process
//	go run ./examples/tasks --redis redis://127.0.0.1:6379     # yours
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/tasktest"
)

func main() {
	url := flag.String("redis", "", "URL of a Redis, redis://host:port; without it one runs inside this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, "example-tasks", os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run shows everything on a Redis, under a prefix of its own, and says on out what happened.
func run(ctx context.Context, url, prefix string, out io.Writer) error {
	client, closeClient, err := open(ctx, url, task.Options{Prefix: prefix, LockPrefix: prefix + ":"})
	if err != nil {
		return err
	}
	defer closeClient()
	if err := client.Drop(ctx); err != nil { // what a run before this one left
		return err
	}

	o := &office{post: &flakyPost{}}
	worker, err := client.Worker(task.WorkerOptions{}, o.handlers()...)
	if err != nil {
		return err
	}
	scheduler, err := client.Scheduler(task.SchedulerOptions{}, Stock)
	if err != nil {
		return err
	}
	end := inBackground(ctx, worker.Run, scheduler.Run)
	err = show(ctx, client, o, out)
	if stopped := end(); err == nil {
		err = stopped
	}
	return err
}

// open connects to the Redis of the user, or starts one inside this process, which is slow and forgets everything.
func open(ctx context.Context, url string, o task.Options) (c *task.Client, end func(), err error) {
	if url == "" {
		c, stop, err := tasktest.Open(ctx, o)
		return c, func() { _ = stop() }, err // nothing is lost with it
	}
	c, err = task.Open(ctx, url, o)
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}

// inBackground runs what lives until end is called, which waits until all of it has come to its end.
func inBackground(ctx context.Context, all ...func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	errs := make(chan error, len(all))
	for _, f := range all {
		go func() { errs <- f(ctx) }()
	}
	return func() (first error) {
		cancel()
		for range all {
			if err := <-errs; err != nil && first == nil {
				first = err
			}
		}
		return first
	}
}

// show submits tasks and says what became of them.
func show(ctx context.Context, client *task.Client, o *office, out io.Writer) error {
	for _, part := range []func(context.Context, *task.Client, *office, io.Writer) error{retries, deadLetters, limits, fanOut, periodic} {
		if err := part(ctx, client, o, out); err != nil {
			return err
		}
	}
	return nil
}

// retries: the post refuses each letter twice; the third attempt is soon enough.
func retries(ctx context.Context, client *task.Client, _ *office, out io.Writer) error {
	h, err := Mail.Submit(ctx, client, Letter{To: "ada@example.org", Text: "your order is on its way"})
	if err != nil {
		return err
	}
	receipt, err := h.Await(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "retries       %s\n", receipt)
	return err
}

// deadLetters: no retry makes an address of this one, so the handler says Cancel. A letter that is mended elsewhere could be requeued.
func deadLetters(ctx context.Context, client *task.Client, _ *office, out io.Writer) error {
	h, err := Mail.Submit(ctx, client, Letter{To: "nobody"})
	if err != nil {
		return err
	}
	if _, err := h.Await(ctx); err == nil {
		return fmt.Errorf("a letter to nobody was delivered")
	}
	dead := client.DeadLetters()
	letter, err := dead.Show(ctx, h.ID)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(out, "dead letters  %s %s: %s\n", letter.Name, letter.Args, letter.Error.Message); err != nil {
		return err
	}
	_, err = dead.Delete(ctx, letter.ID)
	return err
}

// limits: six parcels of three customers. Two are packed at a time, and never two of one customer.
func limits(ctx context.Context, client *task.Client, o *office, out io.Writer) error {
	parcels := []Parcel{{"ada", 1}, {"ada", 2}, {"bob", 3}, {"bob", 4}, {"cyd", 5}, {"cyd", 6}}
	handles, err := Pack.SubmitMany(ctx, client, parcels)
	if err != nil {
		return err
	}
	for _, h := range handles {
		if _, err := h.Await(ctx); err != nil {
			return err
		}
	}
	atOnce, ofOne := o.packing.most()
	_, err = fmt.Fprintf(out, "limits        %d parcels packed, at most %d at once, at most %d of one customer\n", len(parcels), atOnce, ofOne)
	return err
}

// fanOut: a count in each warehouse, and the report once all have ended.
func fanOut(ctx context.Context, client *task.Client, _ *office, out io.Writer) error {
	counts := []task.Pending{Count.With("north"), Count.With("south"), Count.With("east"), Count.With("west")}
	group, err := task.Spawn(ctx, client, counts, Report.With(time.Now().UTC().Format(time.DateOnly)))
	if err != nil {
		return err
	}
	text, err := Report.HandleOf(client, group.CallbackID()).Await(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "fan-out       %s\n", text)
	return err
}

// periodic: the scheduler has submitted one task for each slot meanwhile.
func periodic(ctx context.Context, client *task.Client, o *office, out io.Writer) error {
	for range 3 { // looks
		select {
		case <-o.looked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	all, err := client.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if _, err := fmt.Fprintf(out, "periodic      %s: %s has fired\n", s.Name, s.Spec); err != nil {
			return err
		}
	}
	return nil
}
