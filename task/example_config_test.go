package task_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/taktworks/takt/task"
)

// Operators read a configuration for the types of their programs; what it does not say stays as the types have it.
func ExampleParseConfig() {
	clean := task.Define[struct{}, task.None]("jobs:Clean", task.Exclusive())
	config, err := task.ParseConfig([]byte(`
common:
  jobs:Clean:
    max_retries: 3
vo_overrides:
  lhcb:
    jobs:Clean:
      enabled: false
`), clean)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.For("jobs:Clean", "lhcb").IsEnabled(), *config.For("jobs:Clean", "lhcb").MaxRetries)
	_, err = task.ParseConfig([]byte("common:\n  jobs:Clear:\n    max_retries: 3\n"), clean)
	fmt.Println(err)
	// Output:
	// false 3
	// task: configuration: common: there is no task "jobs:Clear"; there are ["jobs:Clean"]
}

// account stands for a transaction of a database.
type account struct{ balance, stored int }

// A dependency is made when it is asked for, and told how the run ended. A worker gets providers in its options; a test injects fakes.
func ExampleProvide() {
	a := &account{stored: 10}
	transaction := task.Provide(func(context.Context) (*account, func(error) error, error) {
		a.balance = a.stored // begin
		return a, func(err error) error {
			if err == nil {
				a.stored = a.balance // commit
			}
			return nil
		}, nil
	})
	withdraw := func(ctx context.Context, n int) error {
		a, err := task.Get[*account](ctx)
		if err != nil {
			return err
		}
		if a.balance -= n; a.balance < 0 {
			return errors.New("overdrawn")
		}
		return nil
	}
	for _, n := range []int{3, 30} {
		ctx, end := task.Inject(context.Background(), transaction)
		fmt.Println(end(withdraw(ctx, n)), a.stored)
	}
	// Output:
	// <nil> 7
	// overdrawn 7
}
