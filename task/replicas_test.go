package task_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/task"
)

// submissions are all ways to hand tasks over; each returns its error, and may be called again.
func submissions(e *env, c *task.Client) map[string]func() error {
	typ := noteType("replicas:Aggregate", task.Aggregate[note]{MaxDelay: time.Hour})
	byName, err := task.DefineJSON("test:Echo", task.Small)
	if err != nil {
		e.t.Fatal(err)
	}
	one := func(opts ...task.SubmitOption) func() error {
		return func() error { _, err := echo.Submit(e.ctx(), c, "a", opts...); return err }
	}
	return map[string]func() error{
		"one":       one(),
		"delayed":   one(task.In(time.Hour)),
		"key":       one(task.Key("k")),
		"id":        one(task.ID("own")),
		"aggregate": func() error { _, err := typ.Submit(e.ctx(), c, note{User: "a"}); return err },
		"many":      func() error { _, err := echo.SubmitMany(e.ctx(), c, make([]string, 300)); return err },
		"many later": func() error {
			_, err := echo.SubmitMany(e.ctx(), c, make([]string, 300), task.In(time.Hour))
			return err
		},
		"many to aggregate": func() error { _, err := typ.SubmitMany(e.ctx(), c, make([]note, 3)); return err },
		"JSON":              func() error { _, _, err := byName.Submit(e.ctx(), c, []byte(`["a"]`)); return err },
		"group": func() error {
			_, err := task.Spawn(e.ctx(), c, []task.Pending{echo.With("a")}, echo.With("b"), task.GroupID("g"))
			return err
		},
	}
}

// Every submission waits for the replica, says so when that does not answer, and may then be repeated: nothing of it is there twice, and the repetition waits, too.
func TestReplicas(t *testing.T) {
	long.Test(t, "runs several servers")
	t.Parallel()
	e := newEnv(t)
	replica := testenv.StartReplica(t, e.srv.Addr)
	const within = 100 * time.Millisecond
	c := e.connect(task.Options{Replicas: 1, ReplicasWithin: within})
	patient := e.connect(task.Options{Replicas: 1, ReplicasWithin: patience})
	for name, submit := range submissions(e, patient) {
		if err := submit(); err != nil {
			t.Errorf("%s, with a replica: %v", name, err)
		}
	}
	e.must("FLUSHALL")
	if err := submissions(e, patient)["key"](); err != nil {
		t.Fatal(err)
	}
	replica.Pause(t)
	for name, submit := range submissions(e, c) {
		for range 2 { // of what is there already, the second is told that it is
			begin := time.Now()
			err := submit()
			var short *task.ReplicasError
			if !errors.As(err, &short) || short.Acknowledged != 0 || short.Want != 1 || short.Within != within || short.Err != nil {
				t.Errorf("%s, with a replica that hangs: %v", name, err)
			}
			if took := time.Since(begin); took < within {
				t.Errorf("%s: an error after %v, before the time was over", name, took)
			}
		}
	}
	if n := e.number("HLEN", e.key("groups:g:state")); n == 0 {
		t.Error("the group is not there, but the error says that it is")
	}
	replica.Continue(t)
	for name, submit := range submissions(e, c) {
		e.eventually(name+" is acknowledged", func() bool { return submit() == nil })
	}
	ids := make(map[string]bool)
	for one, err := range e.client.All(e.ctx(), task.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if ids[one.ID] {
			t.Errorf("%s is there twice", one.ID)
		}
		ids[one.ID] = true
	}
	if !ids["own"] || !ids["g:0"] {
		t.Errorf("the task of the id, or that of the group, is missing among %d", len(ids))
	}
}

// Too few replicas is an error that counts them; a server that cannot say is one with the reason; what was refused is told as what it is.
func TestReplicasRefused(t *testing.T) {
	long.Test(t, "runs several servers")
	e := newEnv(t)
	testenv.StartReplica(t, e.srv.Addr)
	var short *task.ReplicasError
	_, err := echo.Submit(e.ctx(), e.connect(task.Options{Replicas: 2, ReplicasWithin: time.Millisecond}), "a")
	if !errors.As(err, &short) || short.Want != 2 || !strings.Contains(err.Error(), "of 2 replicas acknowledged it within 1ms") {
		t.Errorf("one replica of two: %v", err)
	}
	if _, err := task.Open(e.ctx(), e.srv.URL, task.Options{WaitForDisk: true}); err == nil || !strings.Contains(err.Error(), "Options.WaitForDisk") {
		t.Errorf("a server without an append-only file: %v", err)
	}
	c := e.connect(task.Options{Replicas: 1})
	send(e, echo, "a", task.UniqueKey("u", 0))
	var duplicate *task.DuplicateError
	if _, err := echo.Submit(e.ctx(), c, "a", task.UniqueKey("u", 0)); err == nil || !errors.As(err, &duplicate) {
		t.Errorf("a second of a unique task: %v", err)
	}
	e.must("CONFIG", "SET", "maxmemory", "1")
	if _, err := echo.Submit(e.ctx(), c, "a"); errors.As(err, &short) || !task.Away(err) {
		t.Errorf("without memory: %v", err)
	}
	e.must("CONFIG", "SET", "maxmemory", "0")
	e.must("ACL", "SETUSER", "default", "-wait")
	defer e.must("ACL", "SETUSER", "default", "+wait")
	if _, err := echo.Submit(e.ctx(), c, "a"); !errors.As(err, &short) || !strings.Contains(err.Error(), "not known") || !strings.Contains(err.Error(), "wait") {
		t.Errorf("WAIT is denied: %v", err)
	}
}

// Nothing more than before is sent when nobody asks for replicas, and one pipeline for a batch when somebody does.
func TestReplicasCommands(t *testing.T) {
	long.Test(t, "runs several servers")
	for want, replicas := range []int{0, 1} {
		e := newEnv(t)
		testenv.StartReplica(t, e.srv.Addr)
		c := e.connect(task.Options{Replicas: replicas, ReplicasWithin: 10 * time.Second})
		e.must("CONFIG", "RESETSTAT")
		if _, err := echo.SubmitMany(e.ctx(), c, make([]string, 256)); err != nil {
			t.Fatal(err)
		}
		stats, err := e.must("INFO", "commandstats").ToString()
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"wait", "set"} {
			if got := strings.Contains(stats, "cmdstat_"+command+":calls=1,"); got != (want == 1) || !got && strings.Contains(stats, "cmdstat_"+command+":") {
				t.Errorf("Replicas %d: %s\n%s", replicas, command, stats)
			}
		}
	}
}

// A master dies whose replica had been cut off, and the replica takes over: what was acknowledged under Replicas is there, all of it; of what was not waited for some is lost.
func TestReplicasLoseNothing(t *testing.T) {
	long.Test(t, "runs several servers")
	e := newEnv(t)
	link := testenv.CountingProxy(t, e.srv.URL)
	replica := testenv.StartReplica(t, strings.TrimPrefix(link.URL, "redis://"))
	var mu sync.Mutex
	acknowledged := map[int]map[string]bool{0: {}, 1: {}} // by Replicas
	count := func(replicas int) int { mu.Lock(); defer mu.Unlock(); return len(acknowledged[replicas]) }
	var all sync.WaitGroup
	for replicas := range acknowledged {
		c := e.connect(task.Options{Replicas: replicas, ReplicasWithin: 500 * time.Millisecond})
		for p := range 4 {
			all.Go(func() {
				for n := 0; ; n++ {
					h, err := echo.Submit(e.ctx(), c, strconv.Itoa(n))
					var short *task.ReplicasError
					switch {
					case err == nil:
						mu.Lock()
						acknowledged[replicas][h.ID] = true
						mu.Unlock()
					case !errors.As(err, &short) && task.Away(err):
						return // the master is dead
					case !errors.As(err, &short):
						t.Errorf("%d: %v", p, err)
						return
					}
				}
			})
		}
	}
	e.eventually("both submit", func() bool { return count(0) > 500 && count(1) > 100 })
	link.Stall(true)
	before := count(0)
	e.eventually("more is submitted while the replica is cut off", func() bool { return count(0) > before+500 })
	if err := e.srv.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := replica.Do(t, "REPLICAOF", "NO", "ONE").Error(); err != nil {
		t.Fatal(err)
	}
	c, err := task.New(replica.Client, task.Options{Prefix: e.prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	there := make(map[string]bool)
	for one, err := range c.All(e.ctx(), task.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		there[one.ID] = true
	}
	lost := map[int]int{}
	for replicas, ids := range acknowledged {
		for id := range ids {
			if !there[id] {
				lost[replicas]++
			}
		}
	}
	t.Logf("lost: %d of %d acknowledged by the master, %d of %d by the replica, too", lost[0], count(0), lost[1], count(1))
	if lost[1] != 0 {
		t.Errorf("%d acknowledged tasks are lost", lost[1])
	}
	if lost[0] == 0 {
		t.Error("nothing is lost without waiting: this test shows nothing")
	}
}
