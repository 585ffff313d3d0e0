package fault_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/workflow"
)

// flowRole is the environment variable that makes this test binary a worker or a starter of workflows: its value is a flowConfig as JSON.
const flowRole = "TAKT_TEST_FLOW"

// flowConfig is what such a process is to be.
type flowConfig struct {
	Role   string // "worker" or "starter"
	URL    string // of Redis
	Prefix string
	Shards int
	Ledger string // folder
	ID     string // of a worker

	Lease time.Duration // of a worker; 0 = 1 s

	Name  string // of a starter: what its instances are called
	Count int    // how many
	Every time.Duration
	Plan  flowPlan // what each does
}

func (c flowConfig) folder() string { return c.Ledger }

// flowPlan is what an instance does: all activities at once, then a timer, then a sub-workflow, then it waits for a signal; its start has it.
type flowPlan struct {
	Activities int           `json:",omitempty"`
	Takes      time.Duration `json:",omitempty"` // each of them
	Held       bool          `json:",omitempty"` // each of them, until the gate of the ledgers is open
	Timer      time.Duration `json:",omitempty"`
	Child      bool          `json:",omitempty"`
	Signal     bool          `json:",omitempty"`
	Gate       string        `json:",omitempty"` // of the sub-workflow: two at once
}

// everything is a plan with all that there is.
var everything = flowPlan{Activities: 2, Takes: 3 * time.Millisecond, Timer: 20 * time.Millisecond, Child: true, Signal: true, Gate: "gate"}

// Notes of the ledger beside those of tasks. Work is the instance, Task its execution; Try the number of an activity, or of the first event of a checkpoint.
const (
	noteSignal     = "signal"     // a signal was accepted
	noteRun        = "run"        // an activity begins
	noteResult     = "result"     // its result was accepted
	noteCheckpoint = "checkpoint" // a checkpoint was accepted
	noteRepeat     = "repeat"     // a task was handed out that another had
	noteLost       = "lost"       // what a task brought was refused
)

const (
	flowQueue   = "q"
	timerRef    = 100
	childRef    = 200
	flowStarted = "Started"
	flowChild   = "ChildDone"
	flowDone    = "ActivityCompleted"
	flowEnd     = "Ended"
)

// runFlow is such a process with a worker or a starter, which starts instances, each until it is accepted, and signals those that wait for it.
func runFlow(ctx context.Context, c flowConfig, ledger *taskLedger, log *slog.Logger) error {
	client, err := workflow.Open(ctx, c.URL, workflow.Options{Prefix: c.Prefix, Shards: c.Shards, Log: log})
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Role == "worker" {
		return c.work(ctx, client, ledger, log)
	}
	paced(ctx, c.Count, c.Every, func(i int) { startAndSignal(ctx, client, ledger, numbered(c.Name, i), c.Plan) })
	return nil
}

// startAndSignal starts an instance, and signals it if it waits for that.
func startAndSignal(ctx context.Context, client *workflow.Client, ledger *taskLedger, id string, plan flowPlan) {
	startFlow(ctx, client, ledger, id, plan)
	if plan.Signal {
		signalFlow(ctx, client, ledger, id)
	}
}

// startFlow starts an instance until it is accepted.
func startFlow(ctx context.Context, client *workflow.Client, ledger *taskLedger, id string, plan flowPlan) {
	data, _ := json.Marshal(plan)
	s := workflow.Start{Instance: workflow.Instance{ID: id, Execution: "x"}, Queue: flowQueue, Name: "flow", Event: flowEvent(flowStarted, 0, data)}
	s.Event.ID = id + "-start"
	var sent time.Time
	until(ctx, ledger, id, func() error {
		sent = time.Now()
		return client.Start(ctx, s)
	})
	ledger.note(taskNote{Event: noteOK, Work: id, Task: "x", Sent: sent.UnixNano()})
}

// signalFlow signals an instance until that is accepted. Somebody may have undone its start, or the signal may have come before, and the instance be at its end.
func signalFlow(ctx context.Context, client *workflow.Client, ledger *taskLedger, id string) {
	e := flowEvent(workflow.EventSignal, 0, nil)
	e.ID = id + "-signal"
	until(ctx, ledger, id, func() error {
		err := client.Signal(ctx, id, e)
		if errors.Is(err, workflow.ErrNotFound) {
			return nil
		}
		return err
	})
	ledger.note(taskNote{Event: noteSignal, Work: id})
}

// until repeats what a program repeats: a call that Redis did not answer, or that replicas did not acknowledge.
func until(ctx context.Context, ledger *taskLedger, id string, call func() error) {
	for ctx.Err() == nil {
		err := call()
		if err == nil {
			return
		}
		says := err.Error()
		if !redis.Away(err) {
			says = "unforeseen: " + says
		}
		ledger.note(taskNote{Event: noteUnknown, Work: id, Says: says})
		time.Sleep(20 * time.Millisecond) // a program that repeats does not do it at once
	}
}

func flowEvent(typ string, ref int64, data json.RawMessage) workflow.Event {
	return workflow.Event{ID: fmt.Sprintf("%d-%d", os.Getpid(), flowNumbers.Add(1)), Type: typ, Ref: ref, Time: time.Now(), Data: data}
}

var flowNumbers atomic.Int64

// work runs a worker with two pollers of each kind.
func (c flowConfig) work(ctx context.Context, client *workflow.Client, ledger *taskLedger, log *slog.Logger) error {
	w, err := client.NewWorker(workflow.WorkerOptions{Name: c.ID, Lease: cmp.Or(c.Lease, time.Second), MaxDeliveries: -1})
	if err != nil {
		return err
	}
	var pollers sync.WaitGroup
	for range 2 {
		pollers.Go(func() {
			for {
				t, err := w.WorkflowTask(ctx, []string{flowQueue})
				if err != nil {
					return
				}
				pollers.Go(func() { step(client, ledger, log, t) }) // one whose Redis hangs keeps no other from its task
			}
		})
		pollers.Go(func() {
			for {
				t, err := w.ActivityTask(ctx, []string{flowQueue})
				if err != nil {
					return
				}
				pollers.Go(func() { perform(ledger, log, t) })
			}
		})
	}
	fmt.Println("up")
	err = w.Run(ctx)
	pollers.Wait()
	return err
}

// perform runs an activity: its event says for how long.
func perform(ledger *taskLedger, log *slog.Logger, t *workflow.ActivityTask) {
	n := taskNote{Event: noteRun, Work: t.Instance.ID, Task: t.Instance.Execution, Try: int(t.Event.Ref)}
	ledger.note(n)
	if t.Attempt > 1 {
		n.Event = noteRepeat
		ledger.note(n)
	}
	var plan flowPlan
	if err := json.Unmarshal(t.Event.Data, &plan); err != nil {
		log.Error("plan", "error", err)
	}
	time.Sleep(plan.Takes) // its work
	if plan.Held {
		ledger.awaitGate(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n.Event = noteResult
	settledAs(ledger, log, n, t.Complete(ctx, flowEvent(flowDone, t.Event.Ref, nil)))
}

// settledAs notes what became of a task.
func settledAs(ledger *taskLedger, log *slog.Logger, n taskNote, err error) {
	switch {
	case errors.Is(err, workflow.ErrLost):
		n.Event = noteLost
	case err != nil:
		log.Error("not completed", "instance", n.Work, "error", err)
		n.Event, n.Says = noteLost, err.Error()
	}
	ledger.note(n)
}

// step runs a workflow task: what to do follows from the history and what came.
func step(client *workflow.Client, ledger *taskLedger, log *slog.Logger, t *workflow.WorkflowTask) {
	n := taskNote{Event: noteCheckpoint, Work: t.ID, Task: t.Execution, Try: int(t.LastSequence) + 1}
	if t.Attempt > 1 {
		again := n
		again.Event = noteRepeat
		ledger.note(again)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var history []workflow.Event
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var err error
		if history, err = client.History(ctx, t.Instance, 0); err == nil {
			break
		}
		if ctx.Err() != nil || t.Context().Err() != nil || !redis.Away(err) {
			log.Error("history", "instance", t.ID, "error", err)
			n.Event = noteLost
			ledger.note(n)
			_ = t.Release(ctx) // it is found again if that fails
			return
		}
		time.Sleep(pause)
	}
	if int64(len(history)) != t.LastSequence { // another has gone on
		n.Event = noteLost
		ledger.note(n)
		_ = t.Release(ctx)
		return
	}
	cp, err := decide(t.Info, history, t.Events)
	if err != nil {
		log.Error("unforeseen", "instance", t.ID, "error", err)
		os.Exit(4)
	}
	if cp.State == workflow.Finished {
		n.Says = "end"
	}
	settledAs(ledger, log, n, t.Complete(ctx, cp))
}

// decide is the program of all instances.
func decide(info workflow.Info, history, events []workflow.Event) (workflow.Checkpoint, error) {
	cp := workflow.Checkpoint{State: workflow.Active, Executed: append([]workflow.Event{}, events...)}
	did := func(typ string, ref int64) { cp.Executed = append(cp.Executed, flowEvent(typ, ref, nil)) }
	all := append(append([]workflow.Event{}, history...), events...)
	has := func(typ string, ref int64) bool {
		for _, e := range all {
			if e.Type == typ && e.Ref == ref {
				return true
			}
		}
		return false
	}
	var plan flowPlan
	if len(all) == 0 || all[0].Type != flowStarted {
		return cp, fmt.Errorf("%s begins with %+v", info.Instance, all)
	}
	if err := json.Unmarshal(all[0].Data, &plan); err != nil {
		return cp, err
	}
	performed := true
	for ref := int64(1); ref <= int64(plan.Activities); ref++ {
		if !has("ActivityScheduled", ref) {
			e := flowEvent("ActivityScheduled", ref, all[0].Data)
			cp.Activities = append(cp.Activities, workflow.Activity{Event: e})
			cp.Executed = append(cp.Executed, e)
		}
		performed = performed && (has(flowDone, ref) || has(workflow.EventActivityErr, ref))
	}
	switch {
	case !performed:
	case plan.Timer > 0 && !has("TimerScheduled", timerRef):
		at := time.Now().Add(plan.Timer)
		e := flowEvent(workflow.EventTimerFired, timerRef, nil)
		e.VisibleAt = &at
		cp.Timers = append(cp.Timers, e)
		did("TimerScheduled", timerRef)
	case plan.Timer > 0 && !has(workflow.EventTimerFired, timerRef):
	case plan.Child && !has("ChildScheduled", childRef):
		data, err := json.Marshal(flowPlan{Activities: 1, Takes: plan.Takes})
		if err != nil {
			return cp, err
		}
		parent := info.Instance
		child := workflow.Start{
			Instance: workflow.Instance{ID: info.ID + "-child", Execution: fmt.Sprintf("%d-%d", os.Getpid(), flowNumbers.Add(1)), Parent: &parent, ParentEvent: childRef},
			Queue:    flowQueue, Name: "child", Event: flowEvent(flowStarted, 0, data),
		}
		if plan.Gate != "" {
			child.Gate = &workflow.Gate{Key: plan.Gate, Max: 2}
		}
		rejected := flowEvent("Rejected", childRef, nil)
		cp.Messages = append(cp.Messages, workflow.Message{Start: &child, Rejected: &rejected})
		did("ChildScheduled", childRef)
	case plan.Child && !has(flowChild, childRef):
	case plan.Signal && !has(workflow.EventSignal, 0):
	default:
		cp.State, cp.Outcome = workflow.Finished, workflow.Completed
		did(flowEnd, 0)
		if info.Parent != nil {
			e := flowEvent(flowChild, info.ParentEvent, nil)
			cp.Messages = append(cp.Messages, workflow.Message{To: *info.Parent, Event: &e})
		}
	}
	for i := range cp.Executed {
		cp.Executed[i].Sequence = info.LastSequence + int64(i) + 1
	}
	return cp, nil
}
