package fault_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/station"
	"github.com/taktworks/takt/test/rig"
)

// jobFault is a fault under job orders. Two instances of takt serve, a and b, with the heartbeat of production (10 s) have connections of their own to
// Redis and to the broker. An MES orders in a steady stream, and the machine does a command in some milliseconds; a command may take 12 s.
//
//	jobFault{do: func(w *jobWorld) {
//		kill := w.strikes("an instance is killed")   // with orders under way
//		w.serves["a"].Kill()
//		kill.within = jobTTL + 2*time.Second         // and how soon all of them must go on
//	}}.run(t)
//
// At the end all orders have one result and every command was carried out once; nothing is left over; all orders went on in time.
type jobFault struct {
	orders   int // default 300
	underWay int // at most so many orders are under way; default 40
	redis    embedded.RedisOptions
	broker   embedded.MosquittoOptions
	takes    string            // how long a command takes; default 5ms..20ms
	bulk     int               // bytes of each answer of the machine beside what it says
	flags    []string          // of the instances
	commands bool              // the recipe has commands alone, see rig.Options
	forgets  bool              // Redis is set back: orders may be lost and ordered again, or be run again
	do       func(w *jobWorld) // begins when some orders are under way
	judge    func(w *jobWorld) // default: everything holds; see jobWorld.verify
}

const (
	jobTTL = 10 * time.Second // --worker-ttl of production
	busy   = time.Minute      // what a busy machine may add to any time: with it only a hang is too late. How much it was is logged
)

// always is a Redis that keeps everything that it answered.
func always(config ...string) embedded.RedisOptions {
	return embedded.RedisOptions{Persist: true, Config: append([]string{"appendfsync always"}, config...)}
}

// jobWorld is where a jobFault happens.
type jobWorld struct {
	*rig.World
	t             *testing.T
	redis, broker *testenv.Proxy // of the instances alone
	serves        map[string]*rig.Process
	mes           *rig.MES

	f        jobFault
	ordering sync.WaitGroup
	mu       sync.Mutex
	struck   []*strike
}

// strike is one fault, and what became of the orders under way.
type strike struct {
	what        string
	begin, over time.Time     // over: since then they could go on
	within      time.Duration // how soon after over all of them must go on; 0 = some time
}

// ends says that the fault is over, and how soon all orders must go on.
func (s *strike) ends(within time.Duration) { s.over, s.within = time.Now(), within }

func (f jobFault) run(t *testing.T) {
	t.Helper()
	f.orders = cmp.Or(f.orders, 300)
	f.underWay = cmp.Or(f.underWay, 40)
	f.takes = cmp.Or(f.takes, "5ms..20ms")
	if f.judge == nil {
		f.judge = (*jobWorld).verify
	}
	w := &jobWorld{
		World: rig.New(t, rig.Options{Redis: f.redis, Mosquitto: f.broker, WorkerTTL: jobTTL, Takes: f.takes, Commands: f.commands, Bulk: f.bulk, Plain: true}), t: t, f: f, serves: map[string]*rig.Process{},
	}
	w.Forgets = f.forgets
	w.redis, w.broker = testenv.CountingProxy(t, w.Redis.URL), testenv.CountingProxy(t, w.Broker.URL)
	w.serve("a")
	w.serve("b")
	w.mes = w.MES()
	w.orders("JO", f.orders)
	w.some(0.2)
	f.do(w)
	w.ordering.Wait()
	f.judge(w)
}

// orders lets the MES begin to order.
func (w *jobWorld) orders(name string, n int) {
	w.ordering.Go(func() { w.mes.OrderSteadily(rig.Orders(name, n), w.f.underWay) })
}

// more waits until the machine has done a bit more.
func (w *jobWorld) more() {
	w.t.Helper()
	w.UntilExecuted(min(w.Executed()+1+w.Rand.IntN(w.f.orders/2), 3*w.f.orders))
}

// serve starts an instance, also again.
func (w *jobWorld) serve(name string) *rig.Process {
	w.t.Helper()
	return w.serveAs(rig.PlainBinary(w.t), name, w.redis.URL)
}

// serveAs starts an instance of any build and with any way to Redis.
func (w *jobWorld) serveAs(binary, name, redis string) *rig.Process {
	w.t.Helper()
	args := append(w.Args("serve", "--data", filepath.Join(w.Dir, name), "--worker-ttl", jobTTL.String()), "--redis", redis, "--mqtt", w.broker.URL)
	p := rig.StartCommand(w.t, rig.Command{Path: binary, Args: append(args, w.f.flags...)})
	p.Await(rig.Ready)
	w.serves[name] = p
	return p
}

// some waits until about a part of the orders is done.
func (w *jobWorld) some(part float64) {
	w.t.Helper()
	n := int(part * float64(5*w.f.orders))
	w.UntilExecuted(n + w.Rand.IntN(w.f.orders/4))
}

// strikes notes a fault that begins now.
func (w *jobWorld) strikes(what string) *strike {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &strike{what: what, begin: time.Now(), over: time.Now()}
	w.struck = append(w.struck, s)
	return s
}

// lasts is how long a fault goes on: its length is the fault.
func (w *jobWorld) lasts(d time.Duration) {
	w.t.Helper()
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
		w.t.Fatal("stopped in the middle of the fault")
	}
}

// answered checks that the MES never waited longer for an answer.
func (w *jobWorld) answered(within time.Duration) {
	w.t.Helper()
	var longest time.Duration
	for _, a := range w.mes.Ledger().Answers {
		longest = max(longest, a.Came.Sub(a.Sent))
	}
	w.t.Logf("the MES waited up to %v for an answer, the aim is %v", longest.Round(10*time.Millisecond), within)
	if longest > within+busy {
		w.t.Errorf("I6: the MES waited %v for an answer, want %v, and on a busy machine at most %v more", longest, within, busy)
	}
}

// indexes checks that the state indexes were numbered upwards, and logs the longest time between two of them.
func (w *jobWorld) indexes() {
	w.t.Helper()
	var silence time.Duration
	all := w.mes.Ledger().Indexes
	for i, x := range all[1:] {
		if x.Seq < all[i].Seq {
			w.t.Errorf("seq is %d after %d", x.Seq, all[i].Seq)
		}
		silence = max(silence, x.Came.Sub(all[i].Came))
	}
	w.t.Logf("the longest time without a state index was %v", silence.Round(10*time.Millisecond))
	if silence > jobTTL+2*time.Second+busy {
		w.t.Errorf("I6: no state index for %v, want %v, and on a busy machine at most %v more", silence, jobTTL+2*time.Second, busy)
	}
}

// said counts lines of the logs of the instances.
func (w *jobWorld) said(text string) (n int) {
	for _, p := range w.serves {
		n += strings.Count(p.Stderr(), text)
	}
	return n
}

// must has Redis carry a command out.
func (w *jobWorld) must(words ...string) rueidis.RedisResult {
	w.t.Helper()
	return w.Redis.Must(w.t, words...)
}

// verify waits until all orders are done and looks for everything that must hold.
func (w *jobWorld) verify() {
	w.t.Helper()
	w.mes.UntilDone(w.f.orders)
	w.Verify(w.mes)
	if n := len(w.mes.Ledger().Lost); n > 0 && !w.f.forgets {
		w.t.Errorf("I1: %d orders were lost", n)
	}
	w.recovered()
	for _, p := range w.serves {
		stillUp(w.t, p)
	}
	stillUp(w.t, w.Station())
}

// recovered logs how soon orders went on after each fault, and how long the MES waited for answers. It fails the test if an order went on later than it may. How
// much this machine adds to that is seen from the pauses of orders in times without a fault, which are logged beside.
func (w *jobWorld) recovered() {
	w.t.Helper()
	pauses := pausesOf(w.StationLog())
	var usual time.Duration
	for _, p := range pauses {
		if !w.disturbed(p) {
			usual = max(usual, p.to.Sub(p.from))
		}
	}
	var slowest time.Duration
	l := w.mes.Ledger()
	for _, a := range l.Answers {
		slowest = max(slowest, a.Came.Sub(a.Sent))
	}
	var said []string
	for _, s := range w.struck {
		var last time.Duration
		n := 0
		for _, p := range pauses {
			if p.from.Before(s.over) && p.to.After(s.over) {
				n++
				last = max(last, p.to.Sub(s.over))
			}
		}
		said = append(said, fmt.Sprintf("%s: %d orders under way went on within %v", s.what, n, last.Round(10*time.Millisecond)))
		if s.within > 0 && last > s.within+busy {
			w.t.Errorf("I6: %s: an order went on after %v, want %v, and on a busy machine at most %v more", s.what, last, s.within, busy)
		}
	}
	if len(said) > 6 {
		said = append(said[:3], fmt.Sprintf("and %d more", len(said)-3))
	}
	w.t.Logf("%d orders, %d results, %d lost and ordered again; %s; without a fault an order pauses up to %v; the MES waited up to %v for an answer, %d times it asked anew",
		len(l.Accepted), len(l.Results), len(l.Lost), strings.Join(said, "; "), usual.Round(10*time.Millisecond), slowest.Round(10*time.Millisecond), l.Unheard)
}

// pause is the time between two things that the machine did for an order.
type pause struct{ from, to time.Time }

// disturbed says whether a fault was on, or was being recovered from, during some of a pause.
func (w *jobWorld) disturbed(p pause) bool {
	for _, s := range w.struck {
		if p.to.After(s.begin) && p.from.Before(s.over.Add(max(s.within, jobTTL))) {
			return true
		}
	}
	return false
}

// pausesOf lists the pauses of all orders.
func pausesOf(log []station.Entry) (pauses []pause) {
	last := map[string]time.Time{}
	for _, e := range log {
		if e.Order == "" {
			continue
		}
		if from, ok := last[e.Order]; ok {
			pauses = append(pauses, pause{from, e.Time})
		}
		last[e.Order] = e.Time
	}
	return pauses
}

// underWay lists orders with a recipe that runs.
func (w *jobWorld) underWay() []string {
	w.t.Helper()
	ids, err := w.must("SMEMBERS", w.Keys.SfcActiveJobs()).AsStrSlice()
	testenv.Must(w.t, err)
	slices.Sort(ids)
	return ids
}
