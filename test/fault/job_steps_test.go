package fault_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/station"
	"github.com/taktworks/takt/test/rig"
)

// Fault 24: the only instance is killed at the n-th command that it gives Redis once an order is sent, before that is carried out or before it is answered; for all n, or a part of
// them. Started again, it has the order end, with one result and each command once.
func TestFault24KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := &jobWorld{
		World: rig.New(t, rig.Options{WorkerTTL: jobTTL, Takes: "1ms..2ms", Commands: true, Plain: true}), t: t, serves: map[string]*rig.Process{},
	}
	w.broker = testenv.CountingProxy(t, w.Broker.URL)
	a := w.serveAs(rig.PlainBinary(t), "a", w.Redis.URL)
	w.mes = w.MES()
	a.Stop()
	orders := rig.Orders("JO", 400)
	stride := scaled(16, 1)
	killed := 0
	for n, fell := 1+w.Rand.IntN(stride), true; fell && killed < len(orders)-1; n += stride {
		g := testenv.NewGuillotine(t, w.Redis.Addr)
		a := w.serveAs(rig.PlainBinary(t), "a", g.URL)
		g.Arm(n, killed%2 == 0, func() { a.Signal(syscall.SIGKILL) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.mes.Order(orders[killed : killed+1])
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			<-done
			w.mes.UntilDone(killed + 1)
		}()
		select {
		case <-g.Fell:
			a.Kill()
			w.serveAs(rig.PlainBinary(t), "a", w.Redis.URL)
			<-ended
			w.serves["a"].Stop()
		case <-ended:
			fell = !g.Disarm()
			if !fell {
				t.Logf("an order takes %d commands", g.Count())
				a.Stop()
			} else {
				a.Kill()
			}
		}
		killed++
	}
	t.Logf("killed at %d of its commands", killed-1)
	w.serveAs(rig.PlainBinary(t), "a", w.Redis.URL)
	w.Verify(w.mes)
}

// Fault 2: the machine is killed with commands that it has carried out and not answered. Started again it answers them, and does none twice.
func TestFault2StationKilledBeforeItAnswers(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		between := 0
		for range 20 {
			w.Until("a command is carried out and not answered", func() bool {
				w.Station().Pause()
				n := len(unanswered(w.StationLog()))
				if n == 0 {
					w.Station().Continue()
				}
				return n > 0
			})
			between += len(unanswered(w.StationLog()))
			killed := w.strikes("the station is killed")
			w.Station().Kill()
			w.StartStation()
			killed.ends(0)
		}
		t.Logf("%d commands were carried out and not answered", between)
	}}.run(t)
}

// unanswered lists commands that a station has carried out and not answered.
func unanswered(log []station.Entry) (commands []string) {
	executed := map[string]bool{}
	for _, e := range log {
		switch e.Kind {
		case station.Executed:
			executed[e.Command] = true
		case station.Answered:
			delete(executed, e.Command)
		}
	}
	for id := range executed {
		commands = append(commands, id)
	}
	return commands
}

// Fault 2: an instance is killed when the broker has commands or status events, and Redis still has them, too: before they are deleted there, or before it knows that they are.
func TestFault2KilledBetweenPubackAndDeletion(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		for i := range scaled(8, 20) {
			w.serves["a"].Stop()
			g := testenv.NewGuillotine(t, w.Redis.Addr)
			a := w.serveAs(rig.PlainBinary(t), "a", g.URL)
			outbox := []string{w.Keys.SfcOutbox(), w.Prefix + ":event:receiver:list"}[i%2]
			g.Only(func(words []string) bool { // the acknowledgement
				return strings.HasPrefix(strings.ToUpper(words[0]), "EVAL") && slices.Contains(words, outbox) && !slices.Contains(words, w.Keys.SfcWork())
			})
			killed := w.strikes("an instance is killed")
			g.Arm(1+w.Rand.IntN(5), i/2%2 == 0, func() { a.Signal(syscall.SIGKILL) })
			select {
			case <-g.Fell:
			case <-time.After(rig.Patience):
				t.Fatal("it was never about to delete a command")
			}
			a.Kill()
			w.serve("a")
			killed.ends(0)
		}
	}}.run(t)
}

// Fault 13: every answer and event of the machine comes three times, and what an instance has in hand is given to the other one all the time. Each counts once.
func TestFault13DeliveredTwice(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		again, end := w.thrice()
		defer end()
		given := 0
		for len(w.mes.Ledger().Results) < w.f.orders*3/4 {
			given += w.handOver("sfc:work", "sfc-engine") + w.handOver("sfc:outbox", "sfc-outbox")
		}
		t.Logf("%d messages came again, %d entries were given to the other instance", again(), given)
		if again() == 0 || given == 0 {
			t.Error("nothing was delivered twice")
		}
	}}.run(t)
}

// thrice publishes every answer and event of the machine twice more.
func (w *jobWorld) thrice() (again func() int64, end func()) {
	w.t.Helper()
	ctx, end := context.WithCancel(w.t.Context())
	echo := mqtt.UserProperty{Name: "echo", Value: "1"}
	var n atomic.Int64
	heard := make(chan mqtt.Message, 100_000)
	take := func(_ context.Context, in *mqtt.Inbound) {
		_ = in.Ack()
		if !slices.Contains(in.User, echo) {
			heard <- in.Message
		}
	}
	var filters []mqtt.Subscription
	for _, filter := range []string{w.TopicPrefix + "/responses/+/+", w.TopicPrefix + "/equipment/+/events"} {
		filters = append(filters, mqtt.Subscription{Filter: filter, QoS: 1, Handle: take})
	}
	conn := rig.Connect(w.t, mqtt.Options{URL: w.Broker.URL, ClientID: "echo"}, filters...)
	go func() {
		for {
			select {
			case m := <-heard:
				m.Retain, m.User = false, append(slices.Clone(m.User), echo)
				for range 2 {
					if conn.Publish(ctx, m) == nil {
						n.Add(1)
					}
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return n.Load, end
}

// handOver gives entries of a stream that an instance has in hand to the other one, and returns how many.
func (w *jobWorld) handOver(stream, group string) (given int) {
	w.t.Helper()
	key := w.Prefix + ":" + stream
	pending, err := w.must("XPENDING", key, group, "-", "+", "10").ToArray()
	testenv.Must(w.t, err)
	a, b := w.Worker(w.serves["a"]), w.Worker(w.serves["b"])
	for _, p := range pending {
		part, err := p.ToArray()
		testenv.Must(w.t, err)
		id, _ := part[0].ToString()
		other := a
		if owner, _ := part[1].ToString(); owner == a {
			other = b
		}
		got, err := w.must("XCLAIM", key, group, other, "0", id, "JUSTID").AsStrSlice()
		testenv.Must(w.t, err)
		given += len(got)
	}
	return given
}
