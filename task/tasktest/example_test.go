package tasktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/tasktest"
)

type Invoice struct {
	Order  string
	Amount int
}

var errBusy = errors.New("the printer is busy")

var (
	PrintInvoice = task.Define[Invoice, string]("billing:Print", task.Retry(task.Backoff{Base: time.Minute, Exact: true}))
	CloseMonth   = task.Define[[]Invoice, int]("billing:CloseMonth")
)

// printing is the handler under test.
var printing = PrintInvoice.Handle(func(_ context.Context, j *task.Job[Invoice]) (string, error) {
	switch {
	case j.Args.Amount <= 0:
		return "", task.Cancel(fmt.Errorf("nothing to pay for %s", j.Args.Order))
	case j.Attempt < 3:
		return "", errBusy
	}
	return fmt.Sprintf("%s: %d EUR", j.Args.Order, j.Args.Amount), nil
})

// closing submits a task for each invoice.
var closing = CloseMonth.Handle(func(ctx context.Context, j *task.Job[[]Invoice]) (int, error) {
	_, err := PrintInvoice.SubmitMany(ctx, j.Client(), j.Args, task.In(time.Hour))
	return len(j.Args), err
})

func ExampleRun() {
	ctx := context.Background()
	text, err := tasktest.Run(ctx, PrintInvoice, printing, Invoice{"A-1", 40}, tasktest.Attempt(3))
	fmt.Println(text, err)
	_, err = tasktest.Run(ctx, PrintInvoice, printing, Invoice{"A-1", 40})
	fmt.Println(errors.Is(err, errBusy))
	// Output:
	// A-1: 40 EUR <nil>
	// true
}

func ExampleTry() {
	ctx := context.Background()
	for attempt := 1; attempt <= 3; attempt++ {
		run, err := tasktest.Try(ctx, PrintInvoice, printing, Invoice{"A-1", 40}, tasktest.Attempt(attempt))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(attempt, run.Outcome, run.Delay, run.Err)
	}
	run, err := tasktest.Try(ctx, PrintInvoice, printing, Invoice{"A-2", 0})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Outcome, run.Err)
	// Output:
	// 1 retried 1m0s the printer is busy
	// 2 retried 2m0s the printer is busy
	// 3 done 0s <nil>
	// dead nothing to pay for A-2
}

func ExampleMiddleware() {
	logged := func(ctx context.Context, i task.Info, next func(context.Context) error) error {
		err := next(ctx)
		fmt.Println(i.Name, i.ID, i.Labels["tenant"], err)
		return err
	}
	_, _ = tasktest.Run(context.Background(), PrintInvoice, printing, Invoice{"A-1", 40},
		tasktest.ID("7"), tasktest.Labels(map[string]string{"tenant": "north"}), tasktest.Middleware(logged))
	// Output:
	// billing:Print 7 north the printer is busy
}

func ExampleDrain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, end, err := tasktest.Open(ctx, task.Options{}) // in a test: client := tasktest.Client(t)
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	month, err := CloseMonth.Submit(ctx, client, []Invoice{{"A-1", 40}, {"A-2", 0}})
	if err != nil {
		log.Fatal(err)
	}
	runs, err := tasktest.Drain(ctx, client, closing, printing)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(runs.Of(month.ID).Outcome())
	fmt.Println(runs.Count(task.Done), "done,", runs.Count(task.Retried), "retried,", runs.Count(task.Dead), "dead")
	n, err := month.Await(ctx)
	fmt.Println(n, err)
	// Output:
	// done
	// 2 done, 2 retried, 1 dead
	// 2 <nil>
}
