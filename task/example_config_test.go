package task_test

import (
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
