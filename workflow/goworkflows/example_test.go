package goworkflows_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// Greet is an activity, and Order a workflow. They know nothing of Takt.
func Greet(_ context.Context, name string) (string, error) { return "Hello, " + name, nil }

func Order(ctx workflow.Context, name string) (string, error) {
	greeting, err := workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, Greet, name).Get(ctx)
	if err != nil {
		return "", err
	}
	paid, _ := workflow.NewSignalChannel[int](ctx, "paid").Receive(ctx)
	return fmt.Sprintf("%s, thank you for %d EUR", greeting, paid), nil
}

func Example() {
	url, end := redisServer() // such as redis://127.0.0.1:6379/0
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	b, err := goworkflows.Open(ctx, url+"?prefix=shop&retention=24h")
	if err != nil {
		log.Fatal(err)
	}
	w := goworkflows.NewWorker(b, nil)
	if err := w.RegisterWorkflow(Order); err != nil {
		log.Fatal(err)
	}
	if err := w.RegisterActivity(Greet); err != nil {
		log.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		log.Fatal(err)
	}

	c := client.New(b)
	order, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: "order-7"}, Order, "Ada")
	if err != nil {
		log.Fatal(err)
	}
	if err := c.SignalWorkflow(ctx, "order-7", "paid", 40); err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.GetWorkflowResult[string](ctx, c, order, 10*time.Second))

	stop() // first the worker, then what it works on
	if err := w.WaitForCompletion(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Close())
	// Output:
	// Hello, Ada, thank you for 40 EUR <nil>
	// <nil>
}

// redisServer starts one for the example.
func redisServer() (url string, end func()) {
	srv, err := embedded.StartRedis(context.Background(), embedded.RedisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return srv.URL(), func() {
		if err := srv.Stop(); err != nil {
			log.Fatal(err)
		}
	}
}
