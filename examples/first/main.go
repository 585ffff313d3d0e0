package main

import (
	"context"
	"fmt"

	"github.com/taktworks/takt/task"
)

type mail struct{ To, Text string }

var send = task.Define[mail, string]("mail:Send", task.Retry(task.Backoff{}))

func main() {
	ctx := context.Background()
	client := must(task.Open(ctx, "redis://127.0.0.1:6379", task.Options{}))
	go must(client.Worker(task.WorkerOptions{}, send.Handle(func(_ context.Context, j *task.Job[mail]) (string, error) {
		return "sent to " + j.Args.To, nil // an error: it runs again, after 10 s, 20 s, 40 s ...
	}))).Run(ctx)
	handle := must(send.Submit(ctx, client, mail{"ada@example.org", "hello"}))
	fmt.Println(must(handle.Await(ctx)))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
