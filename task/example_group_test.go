package task_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
)

type page struct{ Number int }
type book struct{ Title string }

// A group of tasks and what follows it. The children may run anywhere and in any order; their results come in order.
func ExampleSpawn() {
	ctx, client, stop := exampleServer()
	defer stop()
	render := task.Define[page, string]("book:Render", task.Retry(task.Backoff{}))
	bind := task.Define[book, int]("book:Bind")

	worker, err := client.Worker(task.WorkerOptions{},
		render.Handle(func(_ context.Context, j *task.Job[page]) (string, error) {
			return fmt.Sprintf("page %d", j.Args.Number), nil
		}),
		bind.Handle(func(ctx context.Context, j *task.Job[book]) (int, error) {
			pages, err := task.GroupResults[string](ctx)
			if err != nil {
				return 0, err
			}
			for _, p := range pages {
				fmt.Println(p.Value)
			}
			return len(pages), nil
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runExample(ctx, worker)()

	var pages []task.Pending
	for n := range 3 {
		pages = append(pages, render.With(page{n + 1}))
	}
	group, err := task.Spawn(ctx, client, pages, bind.With(book{"Takt"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := bind.HandleOf(client, group.CallbackID()).Await(ctx)
	fmt.Println(n, "pages bound", err)
	// Output:
	// page 1
	// page 2
	// page 3
	// 3 pages bound <nil>
}

type mail struct{ To, Text string }

// Mails to one address are sent together, once nothing more was added for a while.
func ExampleAggregate() {
	ctx, client, stop := exampleServer()
	defer stop()
	digest := task.Define[mail, task.None]("mail:Digest", task.Aggregate[mail]{
		Key: func(m mail) string { return m.To }, MaxDelay: time.Minute, Grace: 100 * time.Millisecond,
	})
	worker, err := client.Worker(task.WorkerOptions{}, digest.HandleBatch(func(_ context.Context, jobs []*task.Job[mail]) error {
		fmt.Println("to", jobs[0].Args.To)
		for _, j := range jobs {
			fmt.Println("-", j.Args.Text)
		}
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runExample(ctx, worker)()

	mails := []mail{{"ann@example.org", "order 7 is done"}, {"ann@example.org", "order 8 is done"}}
	handles, err := digest.SubmitMany(ctx, client, mails, task.Keep(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range handles {
		if _, err := h.Await(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// to ann@example.org
	// - order 7 is done
	// - order 8 is done
}

func exampleServer() (ctx context.Context, client *task.Client, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	server, err := embedded.StartRedis(ctx, embedded.RedisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if client, err = task.Open(ctx, server.URL(), task.Options{}); err != nil {
		log.Fatal(err)
	}
	return ctx, client, func() { client.Close(); _ = server.Stop(); cancel() }
}

func runExample(ctx context.Context, w interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
	}
}
