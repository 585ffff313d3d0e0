package fault_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/test/rig"
)

// large says whether the big numbers are wanted: `make soak` sets TAKT_TEST_LONG.
var large = os.Getenv("TAKT_TEST_LONG") != ""

// scaled is the number of a run: the short one unless large.
func scaled(short, big int) int {
	if large {
		return big
	}
	return short
}

const (
	taskLease = 3 * time.Second // of workers where the end of a lease is waited for
	calm      = time.Minute     // of workers where nothing but themselves could end theirs: longer than a busy machine holds up one that lives
)

// patience bounds every wait for something that must happen.
var patience = time.Duration(scaled(2*int(rig.Patience), int(30*time.Minute)))

// wait waits until ok holds.
func (w *taskWorld) wait(what string, ok func() bool) {
	w.t.Helper()
	tick := time.Tick(10 * time.Millisecond)
	for late := time.After(patience); !ok(); {
		select {
		case <-tick:
		case <-late:
			w.t.Fatalf("not within %v: %s (%s, events %v)", patience, what, w.left(), w.history.count)
		}
	}
}

// taskWorld is a Redis with its ledgers, and the processes that use it.
type taskWorld struct {
	t       *testing.T
	srv     *testenv.RedisServer
	prefix  string
	keys    keys.Keys
	client  *task.Client // of the test itself, without any proxy
	ledger  *taskLedger  // of the test itself
	history *taskHistory
	rand    *rand.Rand
	left    func() string // what has not ended, in the words of a failure

	workers int
	faulted map[int]time.Time // processes that were killed or paused, or lost their connection, and when first
	since   time.Time         // what was submitted before is lost: FLUSHALL
	anyRun  bool              // a result may be of any run, for two were under way at once on purpose
	undone  bool              // a failover may have undone the last moments: what replicas did not acknowledge, deliveries and ends
}

func newTaskWorld(t *testing.T, o embedded.RedisOptions) *taskWorld {
	t.Helper()
	return newTaskWorldOn(t, testenv.StartRedis(t, o))
}

func newTaskWorldOn(t *testing.T, srv *testenv.RedisServer) *taskWorld {
	t.Helper()
	dir := t.TempDir()
	w := &taskWorld{t: t, srv: srv, prefix: srv.Prefix(t), history: newHistory(dir), rand: rig.Seeded(t), faulted: make(map[int]time.Time)}
	w.keys = keys.New(w.prefix)
	w.left = func() string { return fmt.Sprintf("%d tasks unfinished", w.unfinished()) }
	var err error
	w.client, err = task.New(srv.Client, task.Options{Prefix: w.prefix, LockPrefix: w.prefix + ":"})
	testenv.Must(t, err)
	t.Cleanup(w.client.Close)
	w.ledger, err = openLedger(dir)
	testenv.Must(t, err)
	t.Cleanup(func() { w.ledger.to.Close() })
	return w
}

// start runs a worker or producer in a process of its own.
func (w *taskWorld) start(c taskConfig) *rig.Process {
	w.t.Helper()
	c.URL = cmp.Or(c.URL, w.srv.URL)
	c.Prefix, c.Ledger = w.prefix, w.history.dir
	command := roleCommand(w.t, taskRole, c)
	if c.Hogs {
		command.Dies = "fatal error: " // and then different words, for it may be the race detector that gets no memory
	}
	return rig.StartCommand(w.t, command)
}

// roleCommand is this test binary in a role, as its configuration says.
func roleCommand(t *testing.T, role string, config any) rig.Command {
	t.Helper()
	text, err := json.Marshal(config)
	testenv.Must(t, err)
	self, err := os.Executable()
	testenv.Must(t, err)
	return rig.Command{Path: self, Env: []string{role + "=" + string(text)}}
}

// worker starts a worker and waits until it runs.
func (w *taskWorld) worker(c taskConfig) *rig.Process {
	w.t.Helper()
	w.workers++
	c.Role = "worker"
	if c.ID == "" {
		c.ID = fmt.Sprintf("w%d", w.workers)
	}
	p := w.start(c)
	p.Await("up")
	return p
}

// produce starts a producer and waits until it is connected.
func (w *taskWorld) produce(c taskConfig) *rig.Process {
	w.t.Helper()
	c.Role = "producer"
	c.Name = cmp.Or(c.Name, "work")
	p := w.start(c)
	p.Await("up")
	return p
}

// ended waits until producers or starters have submitted all.
func (w *taskWorld) ended(producers ...*rig.Process) {
	w.t.Helper()
	for _, p := range producers {
		w.wait("all is submitted", p.Gone)
		if code := p.Exit(); code != 0 {
			w.t.Errorf("a producer ended with exit status %d", code)
		}
	}
}

// fault notes that from now on tasks that p had begun may be begun again.
func (w *taskWorld) fault(p *rig.Process) { w.faultPID(p.PID()) }

func (w *taskWorld) faultPID(pid int) {
	if _, before := w.faulted[pid]; !before {
		w.faulted[pid] = time.Now()
	}
}

func (w *taskWorld) kill(p *rig.Process) {
	w.t.Helper()
	w.fault(p)
	p.Kill()
}

// submit hands works over from the test itself, and notes them.
func (w *taskWorld) submit(name string, n int, work taskWork, opts ...task.SubmitOption) []*task.Handle[taskResult] {
	w.t.Helper()
	args := make([]taskWork, n)
	for i := range args {
		args[i] = work
		args[i].N = fmt.Sprintf("%s-%d", name, i)
	}
	hs, err := theWork.SubmitMany(w.ctx(), w.client, args, opts...)
	testenv.Must(w.t, err)
	for i, h := range hs {
		w.ledger.note(taskNote{Event: noteOK, Work: args[i].N, Task: h.ID})
	}
	return hs
}

func (w *taskWorld) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// do runs any command on the server.
func (w *taskWorld) do(words ...string) rueidis.RedisResult {
	w.t.Helper()
	return w.srv.Do(w.t, words...)
}

func (w *taskWorld) must(words ...string) rueidis.RedisResult {
	w.t.Helper()
	return w.srv.Must(w.t, words...)
}

func (w *taskWorld) number(words ...string) int {
	w.t.Helper()
	return int(w.srv.Number(w.t, words...))
}

// seen is how many events of a kind the ledgers have.
func (w *taskWorld) seen(event string) int {
	w.t.Helper()
	w.history.refresh(w.t)
	return w.history.count[event]
}

// until waits until the ledgers have n events of a kind.
func (w *taskWorld) until(event string, n int) {
	w.t.Helper()
	w.wait(fmt.Sprintf("%d times %q", n, event), func() bool { return w.seen(event) >= n })
}

// workStream is where all tasks of these tests wait.
func (w *taskWorld) workStream() string { return w.keys.TaskStream("normal:small") }

// unfinished is how many tasks have not ended, -1 if Redis does not say. They are counted in one moment, for tasks move from one key to the other.
func (w *taskWorld) unfinished() int {
	n, err := w.do("EVAL", "return redis.call('XLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2])", "2", w.workStream(), w.keys.TaskDelayed()).AsInt64()
	if err != nil {
		return -1
	}
	return int(n)
}

// quiet waits until every task has ended.
func (w *taskWorld) quiet() {
	w.t.Helper()
	w.wait("no task left", func() bool { return w.unfinished() == 0 })
}

// through is a proxy to the server, and the URL by which a process goes through it.
func (w *taskWorld) through() *testenv.Proxy { return testenv.CountingProxy(w.t, w.srv.URL) }
