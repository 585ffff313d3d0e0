package fault_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
)

// logical is what became of one piece of work, by the ledgers.
type logical struct {
	name    string
	ok      []string // ids under which it was accepted
	unknown bool
	runs    []*taskRun // of all its tasks, in the order of their fences
}

// taskRun is one run, by the ledger of its worker.
type taskRun struct {
	taskNote           // its start
	effect, end, cause *taskNote
}

// logicals puts the history in order.
func (w *taskWorld) logicals() map[string]*logical {
	w.t.Helper()
	w.history.refresh(w.t)
	all := make(map[string]*logical)
	of := func(name string) *logical {
		if all[name] == nil {
			all[name] = &logical{name: name}
		}
		return all[name]
	}
	type key struct {
		pid   int
		task  string
		fence uint64
	}
	runs := make(map[key]*taskRun) // the newest, for a failover may have a fence given out again, to the same worker, too
	for _, n := range w.history.notes {
		if time.Unix(0, n.At).Before(w.since) {
			continue
		}
		switch n.Event {
		case noteOK:
			of(n.Work).ok = append(of(n.Work).ok, n.Task)
		case noteUnknown:
			of(n.Work).unknown = true
		case noteStart:
			r := &taskRun{taskNote: n}
			of(n.Work).runs = append(of(n.Work).runs, r)
			runs[key{n.PID, n.Task, n.Fence}] = r
		}
		if r := runs[key{n.PID, n.Task, n.Fence}]; r != nil {
			switch n.Event {
			case noteEffect:
				r.effect = &n
			case noteEnd:
				r.end = &n
			case noteCause:
				r.cause = &n
			}
		}
	}
	for _, l := range all {
		slices.SortFunc(l.runs, func(a, b *taskRun) int { return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.At, b.At)) })
	}
	return all
}

// verified is what verify counted.
type verified struct {
	works, runs, repeats, unknown, dead int
	lost, undone                        int           // accepted by a master alone that died; tasks that no master has any more
	slowest                             time.Duration // from a fault to the start of the run that made up for it
}

// verify checks I1 to I5, after everything has come to rest.
func (w *taskWorld) verify() verified {
	w.t.Helper()
	w.quiet()
	all := w.logicals()
	var v verified
	tasks := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l := all[name]
		v.works++
		v.runs += len(l.runs)
		ids := l.tasks()
		if l.unknown && len(l.ok) == 0 {
			v.unknown++
		}
		if len(l.ok) == 0 && !l.unknown && w.since.IsZero() {
			w.t.Errorf("I1: %s was run, and nobody submitted it: %+v", name, *l.runs[0])
		}
		if w.undone {
			ids = w.kept(l, ids, &v)
		}
		if len(ids) > 1 { // a retry of an unknown one came in beside the first
			w.t.Errorf("I2: %s is %d tasks: %v", name, len(ids), ids)
		}
		for _, id := range ids {
			tasks[id] = true
		}
		for _, id := range l.ok {
			if slices.Contains(ids, id) && w.verifyEnd(l, id) {
				v.dead++
			}
		}
		w.verifyRuns(l, &v)
	}
	w.verifyCounters(tasks, v)
	w.verifyRest()
	w.t.Logf("%d works: %d runs, %d of them repetitions after a fault, the slowest %v after it; %d dead; %d submissions without an answer; a failover lost %d tasks and undid %d that nobody was told of",
		v.works, v.runs, v.repeats, v.slowest.Round(time.Millisecond), v.dead, v.unknown, v.lost, v.undone)
	return v
}

// kept are those of the tasks that the failover left. What was accepted without waiting for replicas may be lost. What nobody was told of may be gone, though
// a worker has run it, and even ended it on the new master; its producer submits it again.
func (w *taskWorld) kept(l *logical, ids []string, v *verified) []string {
	w.t.Helper()
	return slices.DeleteFunc(ids, func(id string) bool {
		_, err := theWork.HandleOf(w.client, id).Result(w.ctx())
		gone := errors.Is(err, task.ErrResultMissing)
		switch told := slices.Contains(l.ok, id); {
		case !told && (gone || len(l.ok) > 0):
			v.undone++
			return true
		case told && gone && strings.HasPrefix(l.name, lossy):
			v.lost++
			return true
		}
		return false
	})
}

// lossy begins the names of works that are submitted without waiting for replicas.
const lossy = "lossy"

// tasks are the ids of all tasks that the work became.
func (l *logical) tasks() []string {
	ids := slices.Clone(l.ok)
	for _, r := range l.runs {
		ids = append(ids, r.Task)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// verifyEnd checks I1 and I3 of one accepted task: it has ended, and the result is that of its newest run.
func (w *taskWorld) verifyEnd(l *logical, id string) (dead bool) {
	w.t.Helper()
	result, err := theWork.HandleOf(w.client, id).Result(w.ctx())
	if errors.Is(err, task.ErrResultMissing) {
		w.t.Errorf("I1: %s, task %s, was accepted and has no result; runs: %v", l.name, id, l.describe())
		return false
	}
	if err != nil {
		w.t.Errorf("I1: %s: %v", id, err)
		return false
	}
	letter := w.number("HEXISTS", w.keys.TaskDead(), id) == 1
	if dead = result.Err != nil; dead != letter {
		w.t.Errorf("I1: %s: result %v, dead letter %v", l.name, result.Err, letter)
	}
	if dead {
		return true
	}
	if len(l.runs) == 0 {
		w.t.Errorf("I1: %s is done, and no worker says that it ran it", l.name)
		return false
	}
	last := l.runs[len(l.runs)-1]
	if w.anyRun {
		if i := slices.IndexFunc(l.runs, func(r *taskRun) bool {
			return r.Fence == result.Value.Fence && r.PID == result.Value.PID && r.effect != nil
		}); i >= 0 {
			last = l.runs[i]
		}
	}
	if result.Value.Fence != last.Fence || result.Value.PID != last.PID {
		w.t.Errorf("I3: %s: the result is of fence %x by %d, but a later run was begun: %v", l.name, result.Value.Fence, result.Value.PID, l.describe())
	}
	if last.effect == nil {
		w.t.Errorf("I1: %s is done by a run without its effect: %v", l.name, l.describe())
	}
	return false
}

// verifyRuns checks I4, that runs are repeated only after a fault of the process that ran them, and that fences grow.
func (w *taskWorld) verifyRuns(l *logical, v *verified) {
	w.t.Helper()
	for i, r := range l.runs {
		if i == 0 {
			continue
		}
		before := l.runs[i-1]
		if r.Fence <= before.Fence && r.Task == before.Task && !w.undone {
			w.t.Errorf("I3: %s: fences do not grow: %v", l.name, l.describe())
		}
		if before.end != nil && before.end.Says == string(task.Retried) {
			continue // on its own merits
		}
		v.repeats++
		at, faulted := w.faulted[before.PID]
		if !faulted {
			w.t.Errorf("I4: %s ran again, though nothing had happened to process %d: %v", l.name, before.PID, l.describe())
			continue
		}
		if late := r.time().Sub(at); before.time().Before(at) && late > v.slowest {
			v.slowest = late
		}
	}
}

func (l *logical) describe() []string {
	var all []string
	for _, r := range l.runs {
		text := fmt.Sprintf("%s try %d fence %x by %d at %s", r.Task, r.Try, r.Fence, r.PID, r.time().Format("05.000"))
		for _, n := range []*taskNote{r.effect, r.cause, r.end} {
			if n != nil {
				text += fmt.Sprintf(", %s %s", n.time().Format("05.000"), n.Event)
				if n.Says != "" {
					text += " (" + n.Says + ")"
				}
			}
		}
		all = append(all, text)
	}
	return all
}

// verifyCounters checks I1 from the other side: as many tasks have ended as there were, each once.
func (w *taskWorld) verifyCounters(tasks map[string]bool, v verified) {
	w.t.Helper()
	if !w.since.IsZero() {
		return // some of what was counted before is counted, too
	}
	fields, err := w.must("HGETALL", w.keys.TaskCounters()).AsIntMap()
	testenv.Must(w.t, err)
	ended := 0
	for _, kind := range []task.Outcome{task.Done, task.Dead, task.Cancelled} {
		ended += int(fields[string(kind)+" queue normal:small"])
	}
	// One of unknown fate may have been ended without a run. One that a failover lost may have been counted with the batch of a worker that ended it.
	if ended < len(tasks) || ended > len(tasks)+v.unknown+v.undone+v.lost {
		w.t.Errorf("I1: %d tasks have ended, and there were %d (counters %v)", ended, len(tasks), fields)
	}
}

// verifyRest checks I5: nothing is left over.
func (w *taskWorld) verifyRest() {
	w.t.Helper()
	var found []task.Violation
	var report task.Report
	defer func() {
		for _, f := range found {
			w.t.Errorf("I5: %v", f)
		}
	}()
	w.wait("the check finds nothing", func() bool {
		var err error
		report, found, err = task.Audit(w.ctx(), w.client, 0)
		testenv.Must(w.t, err)
		return len(found) == 0
	})
	if report.Unfinished() != 0 || report.Awaited != 0 || report.Blocked != 0 {
		w.t.Errorf("I5: left over: %+v", report)
	}
}
