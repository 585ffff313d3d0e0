package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

// workerProcess is the environment variable that makes this test binary a worker, to be killed: its value is a processConfig as JSON.
const workerProcess = "TAKT_TEST_WORKER"

type processConfig struct {
	URL, Prefix, ID string
	Slots           int
	Lease           time.Duration
}

// doHang has a mortal task run until its context ends.
const doHang = "hang"

// mortal says in which process it ran.
var mortal = task.Define[string, int]("test:Mortal", task.Small)

func runMortal(ctx context.Context, j *task.Job[string]) (int, error) {
	if j.Args == doHang {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return os.Getpid(), nil
}

// runWorkerProcess is main of such a process. It ends when it is killed.
func runWorkerProcess() int {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

func work() error {
	var c processConfig
	if err := json.Unmarshal([]byte(os.Getenv(workerProcess)), &c); err != nil {
		return err
	}
	client, err := task.Open(context.Background(), c.URL, task.Options{Prefix: c.Prefix, LockPrefix: c.Prefix + ":"})
	if err != nil {
		return err
	}
	defer client.Close()
	w, err := client.Worker(task.WorkerOptions{ID: c.ID, Lease: c.Lease, Concurrency: map[task.Size]int{task.Small: c.Slots}}, mortal.Handle(runMortal))
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

// process starts a worker in a process of its own, on the server or a proxy before it.
func (e *env) process(url, id string, slots int) *rig.Process {
	e.t.Helper()
	self, err := os.Executable()
	e.ok(err)
	text, err := json.Marshal(processConfig{URL: url, Prefix: e.prefix, ID: id, Slots: slots, Lease: processLease})
	e.ok(err)
	return rig.StartCommand(e.t, rig.Command{Path: self, Env: []string{workerProcess + "=" + string(text)}})
}

// processLease is long enough for a busy machine; those who die are said to be by dead, and the others look for them every third of it.
const processLease = 6 * time.Second

// dead ends the heartbeat of a worker whose process is gone.
func (e *env) dead(worker string) {
	e.t.Helper()
	e.srv.Expire(e.t, e.keys().Worker(worker))
}

// held is how many entries of a queue a worker holds.
func (e *env) held(q task.Queue, worker string) int64 {
	e.t.Helper()
	list, err := e.do("XPENDING", e.key("tasks:"+string(q)), e.key("tasks:workers"), "-", "+", "10000", worker).ToArray()
	if err != nil { // there is no group yet
		return 0
	}
	return int64(len(list))
}
