package task_test

import (
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/task"
)

// A type that says when its tasks are due: each night in Berlin, for each tenant. Here it does not wait for the night.
func ExampleClient_Scheduler() {
	ctx, client, stop := exampleServer()
	defer stop()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	report := task.Define[string, task.None]("reports:Nightly",
		task.Cron("30 2 * * *", task.TimeZone(berlin), task.PerVO("lhcb"), task.SkipIfRunning, task.RunOnStart()))
	made := make(chan string, 1)
	worker, err := client.Worker(task.WorkerOptions{}, report.Handle(func(_ context.Context, j *task.Job[string]) (task.None, error) {
		made <- j.Args
		return task.None{}, nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runExample(ctx, worker)()
	scheduler, err := client.Scheduler(task.SchedulerOptions{}, report)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runExample(ctx, scheduler)()

	fmt.Println("a report for", <-made)
	entries, err := client.Schedules(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range entries {
		fmt.Println(e.Name, "is", e.State, "by", e.Spec)
	}
	// Output:
	// a report for lhcb
	// reports:Nightly@lhcb is active by cron TZ=Europe/Berlin 30 2 * * *
}

// An entry without code: any client adds it, whichever scheduler leads submits its tasks.
func ExampleClient_AddSchedule() {
	ctx, client, stop := exampleServer()
	defer stop()
	err := client.AddSchedule(ctx, task.ScheduleEntry{
		Name: "clean sandboxes", Task: "jobs:CleanSandboxStore", Queue: "background:medium",
		Spec: "rrule FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;BYHOUR=4;BYMINUTE=0;BYSECOND=0", Args: []byte(`["/store", 30]`),
	})
	fmt.Println(err)
	entry, err := client.Schedule(ctx, "clean sandboxes")
	fmt.Println(entry.Next.Format("Mon 15:04"), err)
	fmt.Println(client.AddSchedule(ctx, task.ScheduleEntry{Name: "a", Task: "b", Spec: "every now and then"}))
	// Output:
	// <nil>
	// Sun 04:00 <nil>
	// task: schedule "a": schedule: every "now and then": want a duration such as 90s or 1h30m, then nothing, or from and a time such as 2026-01-02T03:04:05Z
}
