package workflow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

// BenchmarkInstance runs instances of some activities one after the other, 100 at once, with two pollers of each kind.
func BenchmarkInstance(b *testing.B) {
	for _, activities := range []int{1, 10} {
		b.Run(fmt.Sprintf("activities=%d", activities), func(b *testing.B) {
			e := newEnv(b)
			w, stop := e.worker(workflow.WorkerOptions{})
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{}, b.N)
			var pollers sync.WaitGroup
			for range 2 {
				pollers.Go(func() {
					for {
						t, err := w.WorkflowTask(ctx, []string{"q"})
						if err != nil {
							return
						}
						go func() {
							n := t.LastSequence + int64(len(t.Events))
							cp := workflow.Checkpoint{State: workflow.Active, Executed: executed(t)}
							if n > int64(activities) {
								cp.State, cp.Outcome = workflow.Finished, workflow.Completed
							} else {
								cp.Activities = []workflow.Activity{{Event: workflow.Event{ID: fmt.Sprint(t.ID, n), Type: "ActivityScheduled", Ref: n, Time: time.Now()}}}
							}
							if err := t.Complete(context.Background(), cp); err != nil {
								b.Error(err)
							}
							if cp.State == workflow.Finished {
								done <- struct{}{}
							}
						}()
					}
				})
				pollers.Go(func() {
					for {
						t, err := w.ActivityTask(ctx, []string{"q"})
						if err != nil {
							return
						}
						go func() {
							if err := t.Complete(context.Background(), workflow.Event{ID: t.Event.ID + "r", Type: "ActivityCompleted", Ref: t.Event.Ref, Time: time.Now()}); err != nil {
								b.Error(err)
							}
						}()
					}
				})
			}
			slots := make(chan struct{}, 100)
			b.ResetTimer()
			go func() {
				for n := range b.N {
					slots <- struct{}{}
					s := workflow.Start{Instance: workflow.Instance{ID: fmt.Sprint("i", n), Execution: "x"}, Queue: "q", Event: workflow.Event{ID: fmt.Sprint("s", n), Type: "Started", Time: time.Now()}}
					go func() {
						if err := e.Start(context.Background(), s); err != nil {
							b.Error(err)
						}
					}()
				}
			}()
			for range b.N {
				<-done
				<-slots
			}
			b.StopTimer()
			cancel()
			pollers.Wait()
			stop()
		})
	}
}
