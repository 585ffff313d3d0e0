package fault_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/task"
)

// Types of a stored system, beside those of all tests.
var (
	stubborn = task.Define[taskWork, taskResult]("fault:Stubborn", task.Small, task.Retry(task.Backoff{Base: 30 * time.Second, Retries: 3}))
	lone     = task.Define[taskWork, taskResult]("fault:Lone", task.Small, task.Exclusive())
	bundle   = task.Define[taskWork, task.None]("fault:Bundle", task.Small, task.Aggregate[taskWork]{MaxDelay: 3 * time.Second})
	second   = task.Define[taskWork, taskResult]("fault:Second", task.Small, task.Every(time.Second, task.Args(func(f task.Firing) taskWork { return taskWork{N: "second"} })))
)

func (c taskConfig) storedHandlers(ledger *taskLedger) []task.Handler {
	all := []task.Handler{bundle.HandleBatch(func(ctx context.Context, jobs []*task.Job[taskWork]) error {
		for _, j := range jobs {
			for _, event := range []string{noteStart, noteEffect} {
				ledger.note(taskNote{Event: event, Work: j.Args.N, Task: j.ID, Try: j.Attempt, Fence: j.Fence})
			}
		}
		return nil
	})}
	for _, t := range []*task.Type[taskWork, taskResult]{stubborn, lone, second, rareWork} {
		all = append(all, t.Handle(c.handleWork(ledger)))
	}
	return all
}

// storedHead is the first line of a stored system: what is in it, as its ledgers say. The ids are those of the tasks, by work.
type storedHead struct {
	Made  string            `json:"made"`  // when
	Build string            `json:"build"` // with which commit of Takt
	Ended map[string]string `json:"ended"` // done, with results
	Dead  map[string]string `json:"dead"`
	Open  map[string]string `json:"open"` // not ended: each is to be done once
}

// storedKey is every other line: a key, as RESTORE takes it.
type storedKey struct {
	Key   string `json:"key"`
	TTL   int64  `json:"ttl"` // ms, 0 = for ever
	Value []byte `json:"value"`
}

const (
	storedKeyed  = "stored key"
	storedUnique = "stored unique key"
)

// store makes a system with something in every state and writes it into file. A worker that held some of it is dead, and all others are gone.
func (w *taskWorld) store(file, build string) {
	head := storedHead{Made: time.Now().UTC().Format(time.RFC3339), Build: build, Ended: make(map[string]string), Dead: make(map[string]string), Open: make(map[string]string)}
	add := func(to map[string]string, typ *task.Type[taskWork, taskResult], name string, n int, work taskWork, opts ...task.SubmitOption) {
		for i, h := range w.submitOf(typ, name, n, work, opts...) {
			to[fmt.Sprintf("%s-%d", name, i)] = h.ID
		}
	}
	if err := w.client.PauseType(w.ctx(), rareWork.Name()); err != nil {
		w.t.Fatal(err)
	}
	worker := w.worker(taskConfig{ID: "early", Lease: calm, Stored: true, Holds: true, Slots: 20})
	add(head.Ended, theWork, "done", 3, taskWork{})
	add(head.Dead, theWork, "dead", 2, taskWork{Do: doFail})
	w.quiet()
	add(head.Open, stubborn, "stubborn", 2, taskWork{Do: doFailOnce}) // delayed, with a history
	add(head.Open, rareWork, "parked", 2, taskWork{})
	add(head.Open, theWork, "held", 2, taskWork{Do: doHold})
	add(head.Open, lone, "lone", 1, taskWork{Do: doHold})
	w.wait("they run, wait and are parked", func() bool {
		report, _, err := task.Audit(w.ctx(), w.client, time.Hour)
		return err == nil && report.Running == 3 && report.Parked == 2 && report.Delayed == 2
	})
	add(head.Open, lone, "lonely", 1, taskWork{}) // blocked
	group := []task.Pending{theWork.With(taskWork{N: "child-0"}), theWork.With(taskWork{N: "child-1", Do: doHold})}
	if _, err := task.Spawn(w.ctx(), w.client, group, tally.With(taskWork{N: "tally"}), task.GroupID("stored-group")); err != nil {
		w.t.Fatal(err)
	}
	head.Open["child-1"], head.Open["tally"] = "stored-group:1", "stored-group:callback"
	w.wait("one child has ended, and one is blocked", func() bool {
		report, _, err := task.Audit(w.ctx(), w.client, time.Hour)
		return err == nil && report.Running == 4 && report.Blocked == 1
	})
	scheduler := w.start(taskConfig{Role: "scheduler", ID: "s", Stored: true})
	w.until(noteEffect, w.seen(noteEffect)+1)
	scheduler.Stop()
	w.kill(worker)
	add(head.Open, theWork, "waiting", 5, taskWork{})
	add(head.Open, theWork, "delayed", 3, taskWork{}, task.In(3*time.Second))
	for name, option := range map[string]task.SubmitOption{"keyed": task.Key(storedKeyed), "unique": task.UniqueKey(storedUnique, 0)} {
		h, err := theWork.Submit(w.ctx(), w.client, taskWork{N: name}, option)
		if err != nil {
			w.t.Fatal(err)
		}
		head.Open[name] = h.ID
	}
	for i, h := range w.bundles(3) {
		head.Open[fmt.Sprintf("bundle-%d", i)] = h.ID
	}
	w.dump(file, head)
}

func (w *taskWorld) bundles(n int) []*task.Handle[task.None] {
	args := make([]taskWork, n)
	for i := range args {
		args[i].N = fmt.Sprintf("bundle-%d", i)
	}
	hs, err := bundle.SubmitMany(w.ctx(), w.client, args)
	if err != nil {
		w.t.Fatal(err)
	}
	return hs
}

// dump writes all keys into file.
func (w *taskWorld) dump(file string, head storedHead) {
	f, err := os.Create(file)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	to := json.NewEncoder(f)
	err = to.Encode(head)
	w.must("CONFIG", "SET", "rdbcompression", "no") // so that what is in the file can be read
	w.must("DEL", w.keys.TaskWorkers())             // it names the machine
	keys, failed := w.srv.AllKeys(w.ctx())
	err = errors.Join(err, failed)
	for _, key := range keys {
		ttl := w.number("PTTL", key)
		value, failed := w.do("DUMP", key).AsBytes()
		if rueidis.IsRedisNil(failed) { // expired meanwhile
			continue
		}
		err = errors.Join(err, failed, to.Encode(storedKey{Key: key, TTL: int64(max(ttl, 0)), Value: value}))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// restore loads what dump wrote.
func (w *taskWorld) restore(file string) (head storedHead) {
	w.t.Helper()
	f, err := os.Open(file)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); n++ {
		var k storedKey
		var err error
		if n == 0 {
			err = json.Unmarshal(lines.Bytes(), &head)
		} else if err = json.Unmarshal(lines.Bytes(), &k); err == nil {
			if !strings.HasPrefix(k.Key, w.prefix+":") {
				w.t.Fatalf("%s is not of the prefix %s", k.Key, w.prefix)
			}
			if k.TTL > 0 && strings.Contains(k.Key, ":lock:") {
				k.TTL = min(k.TTL, 1000) // a lock outlives the worker that held it by half a minute, and nothing is to be learnt by waiting
			}
			w.must("RESTORE", k.Key, strconv.FormatInt(k.TTL, 10), rueidis.BinaryString(k.Value))
		}
		if err != nil {
			w.t.Fatalf("%s: line %d: %v", file, n+1, err)
		}
	}
	if err := lines.Err(); err != nil {
		w.t.Fatal(err)
	}
	return head
}

// Fault 26: what an older build left in Redis is read by this one, and run to its end: tasks that wait, are delayed, failed before, are parked, blocked, collected, held
// by a worker that is dead, or in a group; results, dead letters, keys and schedules. TAKT_TEST_STORE=BUILD stores a system made by this build as
// testdata/stored-BUILD.jsonl beside those of older ones, which stay as they are.
func TestTaskFault26StoredByOlderBuild(t *testing.T) {
	t.Parallel()
	if build := os.Getenv("TAKT_TEST_STORE"); build != "" {
		newTaskWorld(t, embedded.RedisOptions{}).store(filepath.Join("testdata", "stored-"+build+".jsonl"), build)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "stored-*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("nothing is stored", err)
	}
	for _, file := range append(files, "") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if file == "" { // this build
				file = filepath.Join(t.TempDir(), "stored.jsonl")
				newTaskWorld(t, embedded.RedisOptions{}).store(file, "this")
			}
			runStored(t, file)
		})
	}
}

func runStored(t *testing.T, file string) {
	t.Helper()
	w := newTaskWorld(t, embedded.RedisOptions{})
	head := w.restore(file)
	t.Logf("made with %s at %s", head.Build, head.Made)
	for work, id := range head.Ended {
		if r, err := theWork.HandleOf(w.client, id).Result(w.ctx()); err != nil || r.Value.PID == 0 {
			t.Errorf("the result of %s: %+v, %v", work, r, err)
		}
	}
	if h, err := theWork.Submit(w.ctx(), w.client, taskWork{N: "keyed"}, task.Key(storedKeyed)); err != nil || !h.Existing || h.ID != head.Open["keyed"] {
		t.Errorf("a submission under a stored key: %+v, %v", h, err)
	}
	var duplicate *task.DuplicateError
	if _, err := theWork.Submit(w.ctx(), w.client, taskWork{}, task.UniqueKey(storedUnique, 0)); !errors.As(err, &duplicate) || duplicate.ID != head.Open["unique"] {
		t.Errorf("a submission under a stored unique key: %v", err)
	}
	for work, id := range head.Dead {
		letter, err := w.client.DeadLetters().Show(w.ctx(), id)
		if err != nil || len(letter.History) != 4 {
			t.Errorf("the dead letter of %s: %+v, %v", work, letter, err)
		}
	}
	if err := w.client.ResumeQueue(w.ctx(), theWork.Queue()); err != nil {
		t.Fatal(err)
	}
	if n, err := w.client.ResumeType(w.ctx(), rareWork.Name()); err != nil || n != 2 {
		t.Errorf("%d parked tasks, %v", n, err)
	}
	w.worker(taskConfig{ID: "early", Lease: calm, Stored: true}) // takes what it held
	w.worker(taskConfig{Lease: calm, Stored: true})
	w.until(noteEffect, len(head.Open))
	if n, err := w.client.DeadLetters().Requeue(w.ctx(), sortedValues(head.Dead)...); err != nil || n != len(head.Dead) {
		t.Errorf("%d dead letters are requeued, %v", n, err)
	}
	w.until(noteStart, len(head.Open)+4*len(head.Dead))
	w.start(taskConfig{Role: "scheduler", ID: "s", Stored: true})
	w.until(noteEffect, len(head.Open)+1)
	w.quiet()
	all := w.logicals()
	for work, id := range head.Open {
		l := all[work]
		if l == nil || len(l.runs) != 1 || l.runs[0].Task != id || l.runs[0].effect == nil {
			t.Errorf("%s, task %s, was to be run once: %+v", work, id, l)
			continue
		}
		if try := l.runs[0].Try; strings.HasPrefix(work, "stubborn") != (try == 2) {
			t.Errorf("%s: attempt %d", work, try)
		}
	}
	for work := range head.Ended {
		if all[work] != nil {
			t.Errorf("%s had ended, and was run again", work)
		}
	}
	if l := all["second"]; l == nil || !strings.HasPrefix(l.runs[0].Task, second.Name()+"@") {
		t.Errorf("the stored schedule: %+v", l)
	}
	w.wait("the check finds nothing", func() bool { // but tasks of the schedule, which goes on
		found, err := task.Check(w.ctx(), w.client, time.Second)
		return err == nil && found == nil
	})
}

func sortedValues(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for _, k := range sortedKeys(m) {
		all = append(all, m[k])
	}
	return all
}
