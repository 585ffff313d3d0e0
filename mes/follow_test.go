package mes_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

// diary is what a Follow told, in its order.
type diary struct {
	told  chan string
	guard sync.Mutex
	fail  map[string]int // how often OnResult refuses the result of an order
	live  bool           // one of the functions runs
}

func newDiary() *diary { return &diary{told: make(chan string, 10_000), fail: map[string]int{}} }

// note writes down, and checks that the functions come one at a time.
func (d *diary) note(format string, args ...any) {
	d.guard.Lock()
	if d.live {
		panic("two functions at once")
	}
	d.live = true
	d.guard.Unlock()
	d.told <- fmt.Sprintf(format, args...)
	d.guard.Lock()
	d.live = false
	d.guard.Unlock()
}

func (d *diary) options(memory mes.Memory) mes.FollowOptions {
	return mes.FollowOptions{
		Memory: memory, Clear: true, RetryAfter: 10 * time.Millisecond,
		OnResult: func(_ context.Context, s isa95.Scope, r isa95.JobResponse) error {
			d.guard.Lock()
			fail := d.fail[r.JobOrderID]
			d.fail[r.JobOrderID] = max(0, fail-1)
			d.guard.Unlock()
			if fail > 0 {
				d.note("not now %s", r.JobOrderID)
				return errors.New("not now")
			}
			d.note("result %s %s", r.JobOrderID, r.JobResponseData[0].Value)
			return nil
		},
		OnGap: func(g mes.Gap) {
			if g.NewEpoch {
				d.note("new epoch %d %d", g.Before, g.After)
				return
			}
			d.note("gap %d %d", g.Before, g.After)
		},
		OnLost: func(_ context.Context, _ isa95.Scope, id isa95.JobOrderID) error {
			d.guard.Lock()
			fail := d.fail[string(id)]
			d.fail[string(id)] = max(0, fail-1)
			d.guard.Unlock()
			if fail > 0 {
				d.note("not now %s", id)
				return errors.New("not now")
			}
			d.note("lost %s", id)
			return nil
		},
		OnClear:     func(_ isa95.Scope, id isa95.JobOrderID, s isa95.ReturnStatus) { d.note("clear %s %d", id, s) },
		OnDuplicate: func(_ isa95.Scope, r isa95.JobResponse) { d.note("duplicate %s", r.JobOrderID) },
	}
}

// wait reads on until one of lines came and returns it; others are skipped, but none of never may be among them.
func (d *diary) wait(t testing.TB, line string, never ...string) {
	t.Helper()
	for {
		got := take(t, line, d.told)
		if got == line {
			return
		}
		if slices.Contains(never, got) {
			t.Fatalf("%q before %q", got, line)
		}
	}
}

// rest is what was told and not read.
func (d *diary) rest() []string {
	var all []string
	for {
		select {
		case line := <-d.told:
			all = append(all, line)
		default:
			return all
		}
	}
}

// following runs a Follow; stop ends it and returns its totals.
func following(t testing.TB, c *mes.Client, o mes.FollowOptions) (stop func() mes.Totals) {
	t.Helper()
	var totals mes.Totals
	end := run(t, func(ctx context.Context) (err error) {
		totals, err = c.Follow(ctx, []isa95.Scope{scope}, o)
		return err
	})
	return func() mes.Totals { end(); return totals }
}

// settled waits until the memory has reached seq with these orders still in it.
func settled(t testing.TB, m mes.Memory, seq int64, handed ...isa95.JobOrderID) {
	t.Helper()
	ctx := within(t)
	tick := time.Tick(2 * time.Millisecond)
	for {
		known, err := m.Load(ctx, scope)
		testenv.Must(t, err)
		var ids []isa95.JobOrderID
		for id := range known.Handed {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		if known.Seq == seq && slices.Equal(ids, handed) {
			return
		}
		select {
		case <-tick:
		case <-ctx.Done():
			t.Fatalf("memory has seq %d and %v, want %d and %v", known.Seq, ids, seq, handed)
		}
	}
}

// stage is a broker, a fake Takt, a client and a memory.
type stage struct {
	*fakeTakt
	url    string
	c      *mes.Client
	memory *mes.FileMemory
	file   string
	*diary
}

func newStage(t *testing.T) *stage {
	t.Helper()
	broker := mosquitto(t)
	s := &stage{fakeTakt: newFakeTakt(t, broker.URL), url: broker.URL, diary: newDiary(), file: filepath.Join(t.TempDir(), "mes.json")}
	s.c = newMES(t, broker.URL, "mes-1")
	s.memory = openMemory(t, s.file)
	return s
}

// opened has the memory of each file. The process that had it before has ended when another opens it.
var opened sync.Map

func openMemory(t testing.TB, file string) *mes.FileMemory {
	t.Helper()
	if before, ok := opened.Load(file); ok {
		testenv.Must(t, before.(*mes.FileMemory).Close())
	}
	m, err := mes.OpenMemory(file)
	testenv.Must(t, err)
	opened.Store(file, m)
	return m
}

// readMemory is what a file holds that another uses.
func readMemory(t testing.TB, file string) *mes.FileMemory {
	t.Helper()
	data, err := os.ReadFile(file)
	seen := filepath.Join(t.TempDir(), "seen.json")
	if err == nil {
		err = os.WriteFile(seen, data, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return openMemory(t, seen)
}

// TestFollowsOrdersAsTheyEnd is the usual course: each result once, cleared, forgotten, without a gap.
func TestFollowsOrdersAsTheyEnd(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.jobs = append(s.jobs, &fakeJob{id: "JO-2", state: isa95.State{Top: isa95.Running}}) })
	stop := following(t, s.c, s.options(s.memory))
	s.wait(t, "gap 0 1")
	for i := range 5 {
		id := fmt.Sprintf("JO-1%d", i)
		s.change(func() { s.end(id, "84.7") })
		s.wait(t, "result "+id+" 84.7")
		s.wait(t, "clear "+id+" 1")
	}
	s.change(func() {})
	settled(t, s.memory, 12) // 1 + 5 ended + 5 cleared + 1
	totals := stop()
	if totals.Results != 5 || totals.Clears != 5 || totals.Gaps != 1 || totals.Duplicates != 0 || totals.Troubles != 0 {
		t.Errorf("%+v", totals)
	}
	if rest := s.rest(); len(rest) > 0 {
		t.Errorf("told besides: %v", rest)
	}
}

// TestGapAfterAway: what happened while the MES was away is seen by the seq and made up for, over a restart of it (C.8).
func TestGapAfterAway(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.end("JO-1", "1") })
	stop := following(t, s.c, s.options(s.memory))
	s.wait(t, "clear JO-1 1")
	settled(t, s.memory, 2)
	stop()
	s.rest()
	s.change(func() { s.end("JO-2", "2") })
	s.change(func() { s.end("JO-3", "3") })
	s.change(func() { s.end("JO-4", "4"); s.jobs[len(s.jobs)-1].state = isa95.State{Top: isa95.Aborted} })

	c := newMES(t, s.url, "mes-2")
	stop = following(t, c, s.options(openMemory(t, s.file)))
	s.wait(t, "gap 2 5")
	for _, id := range []string{"JO-2 2", "JO-3 3", "JO-4 4"} {
		s.wait(t, "result "+id)
	}
	for range 3 {
		if got := take(t, "clear", s.told); got[:5] != "clear" {
			t.Error(got)
		}
	}
	settled(t, openMemoryLater{t: t, file: s.file}, 8)
	if totals := stop(); totals.Results != 3 || totals.Gaps != 1 || totals.Duplicates != 0 {
		t.Errorf("%+v", totals)
	}
}

// openMemoryLater reads the file anew at every Load.
type openMemoryLater struct {
	mes.Memory
	t    testing.TB
	file string
}

func (m openMemoryLater) Load(ctx context.Context, s isa95.Scope) (mes.Known, error) {
	return readMemory(m.t, m.file).Load(ctx, s)
}

// TestMissingResultTopicIsAskedFor: has_result without a retained topic.
func TestMissingResultTopicIsAskedFor(t *testing.T) {
	s := newStage(t)
	s.change(func() {
		s.jobs = append(s.jobs, &fakeJob{id: "JO-1", state: ended, hasResult: true, response: response("JO-1", "1")})
		s.jobs = append(s.jobs, &fakeJob{id: "JO-2", state: ended, hasResult: true}) // no result at all
		s.end("JO-3", "3")
		s.retain("result/JO-3", []byte("not JSON"))
	})
	following(t, s.c, s.options(s.memory))
	s.wait(t, "result JO-1 1")
	s.wait(t, "result JO-3 3")
	settled(t, s.memory, 3)
	if got := s.commands(isa95.Clear); !slices.Equal(got, []string{"JO-1", "JO-3"}) && !slices.Equal(got, []string{"JO-3", "JO-1"}) {
		t.Errorf("cleared %v", got)
	}
}

// TestRepeatedIndex: the same index again, as after a refresh, and the same content under a new seq, change nothing.
func TestRepeatedIndex(t *testing.T) {
	s := newStage(t)
	o := s.options(s.memory)
	o.Clear = false
	s.change(func() { s.end("JO-1", "1") })
	stop := following(t, s.c, o)
	s.wait(t, "result JO-1 1")
	settled(t, s.memory, 1, "JO-1")
	for range 3 {
		s.sendIndex()
	}
	s.change(func() {})
	settled(t, s.memory, 2, "JO-1")
	if totals := stop(); totals.Results != 1 || totals.Gaps != 1 || totals.Duplicates != 0 {
		t.Errorf("%+v", totals)
	}
}

// TestSmallerSeqIsAResync: Takt's store was reset; results with known ids but other content are new ones, known
// content is not handed over again.
func TestSmallerSeqIsAResync(t *testing.T) {
	s := newStage(t)
	o := s.options(s.memory)
	o.Clear = false
	s.seq = 40
	s.change(func() { s.end("JO-1", "1"); s.end("JO-2", "2") })
	following(t, s.c, o)
	s.wait(t, "gap 0 41")
	s.wait(t, "result JO-2 2")
	settled(t, s.memory, 41, "JO-1", "JO-2")
	s.change(func() { s.seq, s.jobs = 0, nil; s.end("JO-1", "1"); s.end("JO-2", "22"); s.end("JO-3", "3") })
	s.wait(t, "gap 41 1")
	s.wait(t, "duplicate JO-1")
	s.wait(t, "result JO-2 22")
	s.wait(t, "result JO-3 3")
	settled(t, s.memory, 1, "JO-1", "JO-2", "JO-3")
}

// TestBrokerSetBack: an older index, from a broker that lost its last seconds, makes nothing forgotten.
func TestBrokerSetBack(t *testing.T) {
	s := newStage(t)
	o := s.options(s.memory)
	o.Clear = false
	s.seq = 9
	s.change(func() { s.end("JO-1", "1") })
	stop := following(t, s.c, o)
	s.wait(t, "result JO-1 1")
	settled(t, s.memory, 10, "JO-1")
	s.change(func() { s.seq, s.jobs[0].state, s.jobs[0].hasResult = 5, isa95.State{Top: isa95.Running}, false })
	s.wait(t, "gap 10 6")
	settled(t, s.memory, 6, "JO-1")
	s.change(func() { s.seq, s.jobs[0].state, s.jobs[0].hasResult = 10, ended, true })
	s.wait(t, "gap 6 11", "result JO-1 1")
	s.wait(t, "duplicate JO-1", "result JO-1 1")
	settled(t, s.memory, 11, "JO-1")
	if totals := stop(); totals.Results != 1 {
		t.Errorf("%+v", totals)
	}
}

// TestClearedBySomebodyElse: before we clear (8), before we fetch (the order is gone), and while we are away.
func TestClearedBySomebodyElse(t *testing.T) {
	s := newStage(t)
	o := s.options(s.memory)
	handOver := o.OnResult
	o.OnResult = func(ctx context.Context, sc isa95.Scope, r isa95.JobResponse) error {
		s.with(func() { s.jobs[0].state = isa95.State{Top: isa95.EndState} })
		return handOver(ctx, sc, r)
	}
	s.change(func() { s.end("JO-1", "1") })
	stop := following(t, s.c, o)
	s.wait(t, "result JO-1 1")
	s.wait(t, "clear JO-1 8")
	s.change(func() { s.jobs = nil })
	settled(t, s.memory, 2)
	if totals := stop(); totals.Results != 1 || totals.Clears != 0 {
		t.Errorf("%+v", totals)
	}
}

// TestFunctionFails: a result that is not taken comes again; the order is neither cleared nor settled before, others are.
func TestFunctionFails(t *testing.T) {
	s := newStage(t)
	s.fail["JO-1"] = 3
	s.change(func() { s.end("JO-1", "1"); s.end("JO-2", "2") })
	stop := following(t, s.c, s.options(s.memory))
	s.wait(t, "not now JO-1")
	s.wait(t, "result JO-2 2", "clear JO-1 1")
	s.wait(t, "result JO-1 1", "clear JO-1 1", "result JO-2 2")
	s.wait(t, "clear JO-1 1", "result JO-2 2")
	settled(t, s.memory, 3)
	if totals := stop(); totals.Results != 2 || totals.Clears != 2 || totals.Troubles < 3 {
		t.Errorf("%+v", totals)
	}
}

// TestBrokerLostAndBack: the broker dies without its retained messages and comes back; Takt publishes again.
func TestBrokerLostAndBack(t *testing.T) {
	long.Test(t, "kills the broker")
	broker := testenv.StartMosquitto(t, embedded.MosquittoOptions{})
	k := newFakeTakt(t, broker.URL)
	d := newDiary()
	c := newMES(t, broker.URL, "mes-1")
	memory := mes.NewMemory()
	k.change(func() { k.end("JO-1", "1") })
	stop := following(t, c, d.options(memory))
	d.wait(t, "clear JO-1 1")
	settled(t, memory, 2)
	testenv.Must(t, broker.Server.Kill())
	testenv.Must(t, broker.Server.Restart(within(t)))
	k.ready()
	k.change(func() { k.seq += 4; k.end("JO-2", "2") }) // four are published by nobody
	d.wait(t, "gap 2 7")
	d.wait(t, "result JO-2 2")
	d.wait(t, "clear JO-2 1")
	settled(t, memory, 8)
	if totals := stop(); totals.Results != 2 || totals.Duplicates != 0 {
		t.Errorf("%+v", totals)
	}
}

// TestOrderIDUsedAgain: after Clear the id is stored anew and ends with another result, seen with and without an index
// in between that shows it.
func TestOrderIDUsedAgain(t *testing.T) {
	for name, seen := range map[string]bool{"seen running": true, "not seen": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.change(func() { s.end("JO-1", "1").keep = true }) // the topics are still there
			stop := following(t, s.c, s.options(s.memory))
			s.wait(t, "result JO-1 1")
			s.wait(t, "clear JO-1 1")
			if seen {
				s.change(func() { s.jobs[0].state, s.jobs[0].hasResult = isa95.State{Top: isa95.Running}, false })
			}
			s.change(func() { s.jobs = nil; s.end("JO-1", "2") })
			if !seen {
				s.change(func() {})
			}
			s.wait(t, "result JO-1 2", "result JO-1 1")
			s.wait(t, "clear JO-1 1")
			stop()
		})
	}
}

// TestClearedOrderIsBack: Takt's store was set back to before the Clear, under a seq that goes on. It is cleared again
// and not handed over again.
func TestClearedOrderIsBack(t *testing.T) {
	s := newStage(t)
	j := &fakeJob{}
	s.change(func() { j = s.end("JO-1", "1"); j.keep = true })
	stop := following(t, s.c, s.options(s.memory))
	s.wait(t, "clear JO-1 1")
	j.keep = false
	s.change(func() {})
	s.change(func() {})
	s.wait(t, "duplicate JO-1", "result JO-1 1")
	s.wait(t, "clear JO-1 1", "result JO-1 1")
	if totals := stop(); totals.Results != 1 || totals.Clears != 2 {
		t.Errorf("%+v", totals)
	}
}

// TestAllScopes: without scopes, every scope that has an index is followed; topics that are none are left alone.
func TestAllScopes(t *testing.T) {
	s := newStage(t)
	gaps := make(chan mes.Gap, 10)
	o := s.options(nil)
	o.OnGap = func(g mes.Gap) { gaps <- g }
	run(t, func(ctx context.Context) error {
		_, err := s.c.Follow(ctx, nil, o)
		return err
	})
	send := func(m mqtt.Message) {
		testenv.Must(t, s.conn.Publish(within(t), m))
	}
	send(mqtt.Message{Topic: "takt/cell-07/state-index", Payload: []byte(`{"seq":3,"scope":"cell-07","published_at":"x","jobs":[]}`), QoS: 1, Retain: true})
	if g := take(t, "subscription", gaps); g != (mes.Gap{Scope: "cell-07", After: 3}) { // it comes with the subscription, whenever that is made
		t.Errorf("%+v", g)
	}
	publish := func(topic, payload string) { send(mqtt.Message{Topic: topic, Payload: []byte(payload), QoS: 1}) }
	publish("takt/equipment/state-index", `{"seq":1,"scope":"equipment","published_at":"x","jobs":[]}`)
	publish("takt/cell-08/state-index", `{`)
	publish("takt/cell-08/state-index", ``)
	publish("takt/cell-08/state-index", `{"jobs":[]}`)
	publish("takt/cell-08/state-index", `{"seq":5,"scope":"cell-08","published_at":"x","jobs":[]}`)
	publish("takt/cell-10/state-index", `{"seq":7,"jobs":"x","scope":"cell-10","published_at":"x"}`)
	publish("takt/cell-09/state-index", `{"seq":8,"scope":"cell-09","published_at":"x","jobs":[{"job_order_id":"a/b","state":[],"has_result":true}]}`)
	got := []mes.Gap{take(t, "gap", gaps), take(t, "gap", gaps)}
	slices.SortFunc(got, func(a, b mes.Gap) int { return int(a.After - b.After) })
	if diff := cmp.Diff([]mes.Gap{{Scope: "cell-08", After: 5}, {Scope: "cell-09", After: 8}}, got); diff != "" {
		t.Error(diff)
	}
}

// TestIndexSpellings: indexes as on the page and as MicroDCS writes them.
func TestIndexSpellings(t *testing.T) {
	for name, state := range map[string]string{
		"page": `{"state_text":{"text":"Aborted","locale":"en"},"state_number":6}`,
		"wire": `{"StateText":{"Locale":"en","Text":"Aborted"},"StateNumber":6}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.mu.Lock()
			s.jobs = append(s.jobs, s.end("JO-1", "1"))
			s.seq = 7
			s.mu.Unlock()
			s.retain("state-index", []byte(`{"seq":7,"scope":"cell-07","published_at":"2026-11-21T09:14:05.203377+00:00","jobs":[{"job_order_id":"JO-1","state":[`+state+`],"has_result":true}]}`))
			following(t, s.c, s.options(s.memory))
			s.wait(t, "result JO-1 1")
			s.wait(t, "clear JO-1 1")
		})
	}
}

// TestBacklog: 600 results of an outage come once each, in one go.
func TestBacklog(t *testing.T) {
	s := newStage(t)
	const n = 600
	s.mu.Lock()
	for i := range n {
		s.end(fmt.Sprintf("JO-%04d", i), "1")
	}
	s.answer = func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{"ReturnStatus":1}`) }
	s.publishIndex()
	s.mu.Unlock()
	stop := following(t, s.c, s.options(s.memory))
	for range 2*n + 1 {
		take(t, "results and clears", s.told)
	}
	s.change(func() { s.jobs = nil })
	settled(t, s.memory, 2)
	if totals := stop(); totals.Results != n || totals.Clears != n || totals.Duplicates != 0 || totals.Troubles != 0 {
		t.Errorf("%+v", totals)
	}
}

// TestBrokerSetBackToCleared: the broker comes back as it was before the Clear, with an index and a result of old. Takt knows better:
// the result is not handed over again, that of an order which it still has is.
func TestBrokerSetBackToCleared(t *testing.T) {
	s := newStage(t)
	var old *fakeJob
	s.change(func() { old = s.end("JO-1", "1") })
	stop := following(t, s.c, s.options(s.memory))
	s.wait(t, "clear JO-1 1")
	settled(t, s.memory, 2)
	s.mu.Lock()
	missed := s.end("JO-2", "2")
	s.retain("result/JO-2", nil) // only Takt has it
	s.jobs, s.seq = []*fakeJob{old, missed}, 1
	s.publishResult(old)
	s.sendIndex()
	s.jobs, s.seq = []*fakeJob{missed}, 2
	s.mu.Unlock()
	s.wait(t, "gap 2 1")
	s.wait(t, "result JO-2 2", "result JO-1 1")
	s.wait(t, "clear JO-2 1", "result JO-1 1")
	settled(t, s.memory, 3)
	if totals := stop(); totals.Results != 2 || totals.Clears != 2 {
		t.Errorf("%+v", totals)
	}
}

// TestClearAnsweredToNobody: the MES stops while its Clear is under way. When it is back the order has left, and it is told so.
func TestClearAnsweredToNobody(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.change(func() { s.end("JO-1", "1") })
	s.mu.Lock()
	s.answer = func(e cloudevent.Event) *cloudevent.Event {
		s.jobs = nil
		s.retain("result/JO-1", nil)
		s.publishIndex()
		cancel()
		return nil
	}
	s.mu.Unlock()
	if _, err := s.c.Follow(ctx, []isa95.Scope{scope}, s.options(s.memory)); err != nil {
		t.Fatal(err)
	}
	s.wait(t, "result JO-1 1", "clear JO-1 1")
	s.with(func() { s.answer = nil })
	stop := following(t, newMES(t, s.url, "mes-2"), s.options(s.memory))
	s.wait(t, "clear JO-1 2", "result JO-1 1")
	settled(t, s.memory, 2)
	if totals := stop(); totals.Results != 0 || totals.Clears != 0 {
		t.Errorf("%+v", totals)
	}
}

// counted runs a Follow until it ends by itself.
func counted(t *testing.T, c *mes.Client, o mes.FollowOptions) mes.Totals {
	t.Helper()
	totals, err := c.Follow(within(t), []isa95.Scope{scope}, o)
	testenv.Must(t, err)
	return totals
}

// count is how many lines begin so.
func count(lines []string, with string) (n int) {
	for _, line := range lines {
		if strings.HasPrefix(line, with) {
			n++
		}
	}
	return n
}

// Of many results that wait, exactly Count are handed over and, with Clear, cleared; none is lost to the next Follow.
func TestFollowEndsAtCount(t *testing.T) {
	for _, clears := range []bool{true, false} {
		t.Run(fmt.Sprintf("clear %t", clears), func(t *testing.T) {
			s := newStage(t)
			s.change(func() {
				for i := range 12 {
					s.end(fmt.Sprintf("JO-%d", i), "1")
				}
			})
			o := s.options(s.memory)
			o.Clear, o.Count = clears, 3
			seen := map[string]bool{}
			for round := range 4 {
				totals := counted(t, s.c, o)
				lines := s.rest()
				cleared := 0
				if clears {
					cleared = 3
				}
				if totals.Results != 3 || totals.Clears != int64(cleared) || totals.Troubles != 0 || count(lines, "result ") != 3 || count(lines, "clear ") != cleared {
					t.Errorf("round %d: %+v, %q", round, totals, lines)
				}
				if got := len(s.commands(isa95.Clear)); got != cleared*(round+1) {
					t.Errorf("round %d: %d orders were cleared", round, got)
				}
				for _, line := range lines {
					if strings.HasPrefix(line, "result ") {
						seen[line] = true
					}
				}
			}
			if len(seen) != 12 {
				t.Errorf("handed over: %v", seen)
			}
		})
	}
}

// A result that was not taken, or could not be remembered, does not count before it is.
func TestFollowCountsWhatIsRemembered(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.end("JO-1", "1"); s.end("JO-2", "2") })
	s.fail["JO-1"], s.fail["JO-2"] = 1, 1
	memory := &forgetful{Memory: s.memory}
	o := s.options(memory)
	o.Count = 1
	if totals := counted(t, s.c, o); totals.Clears != 1 || totals.Troubles != 3 {
		t.Errorf("%+v", totals)
	}
	cleared := s.commands(isa95.Clear)
	lines := s.rest()
	if len(cleared) != 1 || count(lines, "result ") != 2 || count(lines, "result "+cleared[0]+" ") != 2 {
		t.Errorf("cleared %v, told %q", cleared, lines)
	}
}

// forgetful refuses the first result.
type forgetful struct {
	mes.Memory
	refused bool
}

func (m *forgetful) Handed(ctx context.Context, s isa95.Scope, id isa95.JobOrderID, r mes.Receipt) error {
	if !m.refused {
		m.refused = true
		return errors.New("the disk is full")
	}
	return m.Memory.Handed(ctx, s, id, r)
}
