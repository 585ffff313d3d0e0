package publisher_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

// A broker whose access list denies a scope. Its topics are tried again until the list is mended; the cursor stays;
// all other scopes are published.
func TestBrokerRefuses(t *testing.T) {
	t.Run("with a reason", func(t *testing.T) { brokerRefuses(t, "max_queued_messages 100000") })
	t.Run("by closing the connection", func(t *testing.T) { brokerRefuses(t, "max_queued_messages 0") }) // as mosquitto 2.0.11 does then
}

func brokerRefuses(t *testing.T, config string) {
	t.Parallel()
	acl := filepath.Join(t.TempDir(), "acl")
	allow := func(lines ...string) {
		t.Helper()
		testenv.Must(t, os.WriteFile(acl, []byte(strings.Join(append(lines, "topic readwrite #"), "\n")+"\n"), 0o600))
	}
	allow("topic deny " + prefix + "/denied/#")
	p := newPlantOn(t, testenv.Redis(t), testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{config, "acl_file " + acl}}))
	i := p.start()
	p.move(scope, "JO-1", isa95.Store)
	p.inSync()
	cursor, err := p.store.Cursor(t.Context())
	testenv.Must(t, err)
	p.move("denied", "JO-2", isa95.StoreAndStart, isa95.Run, isa95.End)
	p.move(scope, "JO-3", isa95.Store)
	p.eventually("refusals, and the other scope published", func() error {
		if s := i.Stats(); s.Refused < 6 || s.Waiting == 0 { // order, result and index, twice
			return fmt.Errorf("%+v", s)
		}
		return wrongIf(entry(p.index(scope), "JO-3").JobOrderID == "", "JO-3 is not in the index")
	})
	if now, _ := p.store.Cursor(t.Context()); now != cursor {
		t.Errorf("the cursor moved from %s to %s past what was refused", cursor, now)
	}
	if done, _ := p.redisDo("HGETALL", p.keys.PubDone("denied")).AsStrMap(); len(done) != 1 || done["JO-2"] != `{"refused":true}` {
		t.Errorf("noted of what was refused: %v", done)
	}
	if p.check() == nil {
		t.Error("Check finds nothing")
	}

	allow()
	testenv.Must(t, syscall.Kill(p.broker.Server.PID(), syscall.SIGHUP))
	p.inSync()
	if x := p.index("denied"); !entry(x, "JO-2").HasResult {
		t.Errorf("%+v", x)
	}
	p.until("nothing waits", i, func(s publisher.Stats) bool { return s.Waiting == 0 })
	p.seqs("denied")
	p.seqs(scope)
}

// Cuts of the link in a row, each while another message is alone in flight, refuse nothing.
func TestCutsInARowRefuseNothing(t *testing.T) {
	p := newPlant(t)
	g := new(gate)
	i := p.start(g.through, func(s *setup) { s.InFlight = 1 })
	p.fill()
	p.inSync()
	cuts := 4
	lost := make(map[string]bool)
	g.set(func() {
		g.fail = func(topic string, _ []byte) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if cuts == 0 {
				return nil
			}
			cuts--
			lost[topic] = true
			return mqtt.ErrLost
		}
	})
	for n := range 4 {
		p.move("m43", isa95.JobOrderID(fmt.Sprintf("JO-%d", n)), isa95.Store)
	}
	p.eventually("nothing waits after the cuts", func() error {
		s := i.Stats()
		return wrongIf(s.Away < 4 || s.Waiting > 0 || s.Refused > 0, "%+v, refused: %v", s, i.Refusals())
	})
	p.inSync()
	if s := i.Stats(); s.Refused > 0 || len(lost) < 2 {
		t.Errorf("%d refused; lost: %v", s.Refused, lost)
	}
}

// Each message may be refused by itself, also one too large; has_result follows what was acknowledged.
func TestRefusedOneByOne(t *testing.T) {
	for _, c := range []struct {
		topic string
		err   error
	}{
		{"/result/JO-1", &mqtt.PublishError{Code: 0x97, Reason: "quota exceeded"}},
		{"/order/JO-1", &mqtt.PublishError{Code: 0x99, Reason: "payload format invalid"}},
		{"m42/state-index", &mqtt.SizeError{Size: 3 << 20, Max: 1 << 20}},
	} {
		t.Run(c.topic, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			g := new(gate)
			i := p.start(g.through)
			p.move(scope, "JO-1", isa95.StoreAndStart, isa95.Run)
			p.inSync()
			g.refuse(c.topic, c.err)
			p.change(scope, "JO-1", p.updated("second edition"))
			p.move(scope, "JO-1", isa95.End)
			p.move("other", "JO-9", isa95.Store)
			p.eventually("refused twice, the rest published", func() error {
				if s := i.Stats(); s.Refused < 2 {
					return fmt.Errorf("%+v", s)
				}
				return wrongIf(entry(p.index("other"), "JO-9").JobOrderID == "", "the other scope is not published")
			})
			p.eventually("the refusal is named while it lasts", func() error {
				r := i.Refusals()
				return wrongIf(len(r) != 1 || !strings.HasSuffix(r[0].Topic, c.topic) || r[0].Bytes == 0 || !errors.Is(r[0].Err, c.err), "%v", r)
			})
			if strings.Contains(c.topic, "result") && entry(p.index(scope), "JO-1").HasResult {
				t.Error("has_result of a result that was refused")
			}
			g.refuse("", nil)
			p.inSync()
			p.eventually("no refusal is named any more", func() error {
				r := i.Refusals()
				return wrongIf(len(r) != 0, "%v", r)
			})
			if !entry(p.index(scope), "JO-1").HasResult {
				t.Errorf("%+v", p.index(scope))
			}
			p.seqs(scope)
		})
	}
}

// A job order whose order topic the broker refuses stands in the index, without a result, until the broker takes it; Check reports it.
func TestIndexNamesRefusedOrders(t *testing.T) {
	p := newPlant(t)
	g := new(gate)
	g.refuse("/JO-1", &mqtt.PublishError{Code: 0x97, Reason: "quota exceeded"})
	p.start(g.through)
	p.move(scope, "JO-1", isa95.StoreAndStart, isa95.Run, isa95.End)
	p.move(scope, "JO-2", isa95.Store)
	p.eventually("both in the index", func() error {
		x := p.index(scope)
		return wrongIf(len(x.Jobs) != 2, "%+v", x)
	})
	if e := entry(p.index(scope), "JO-1"); e.HasResult || fmt.Sprint(e.State) != fmt.Sprint(isa95.State{Top: "Ended", Sub: "Completed"}.Elements()) {
		t.Errorf("the refused order is listed as %+v", e)
	}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "topic app/jobs/m42/order/JO-1 is not published") {
		t.Errorf("Check: %v", err)
	}
	g.refuse("", nil)
	p.inSync()
	if e := entry(p.index(scope), "JO-1"); !e.HasResult {
		t.Errorf("taken at last, it is listed as %+v", e)
	}
	if done, _ := p.redisDo("HGET", p.keys.PubDone("m42"), "JO-1").ToString(); strings.Contains(done, "refused") {
		t.Errorf("still noted as refused: %s", done)
	}
	p.seqs(scope)
}

// While the broker refuses a state index, nothing that the index before it names is deleted.
func TestNothingIsDeletedBeforeTheIndex(t *testing.T) {
	p := newPlant(t)
	g := new(gate)
	i := p.start(g.through)
	p.move(scope, "JO-1", isa95.StoreAndStart, isa95.Run, isa95.End)
	p.move(scope, "JO-2", isa95.Store)
	p.inSync()
	g.refuse("/state-index", &mqtt.SizeError{Size: 3 << 20, Max: 1 << 20})
	p.move(scope, "JO-1", isa95.Clear)
	p.until("refused twice", i, func(s publisher.Stats) bool { return s.Refused >= 2 && s.Waiting == 1 })
	if got := fmt.Sprint(topics(p.retained())); got != "[m42/order/JO-1 m42/order/JO-2 m42/result/JO-1 m42/state-index]" {
		t.Errorf("retained: %s", got)
	}
	g.refuse("", nil)
	p.inSync()
	if got := fmt.Sprint(topics(p.retained())); got != "[m42/order/JO-2 m42/state-index]" {
		t.Errorf("retained: %s", got)
	}
	p.consistent(scope)
}

// A deletion that is refused is not forgotten, and neither is a refused refresh.
func TestRefusedDeletionAndRefresh(t *testing.T) {
	p := newPlant(t)
	g := new(gate)
	i := p.start(g.through)
	p.fill()
	p.inSync()
	refuse := func(what func(topic string, payload []byte) bool) {
		g.set(func() {
			g.fail = func(topic string, payload []byte) error {
				if what(topic, payload) {
					return &mqtt.PublishError{Topic: topic, Code: 0x80, Reason: "unspecified error"}
				}
				return nil
			}
		})
	}
	refuse(func(_ string, payload []byte) bool { return len(payload) == 0 })
	p.move(scope, "OVER", isa95.Clear)
	p.until("a refused deletion", i, func(s publisher.Stats) bool { return s.Refused >= 2 })
	g.refuse("", nil)
	p.inSync()
	if has := topics(p.retained()); slices.Contains(has, "m42/order/OVER") || slices.Contains(has, "m42/result/OVER") {
		t.Errorf("left over: %v", has)
	}
	i.stop()

	before := i.Stats().Refused
	i = p.working(g.through, func(s *setup) { s.Refresh = 300 * time.Millisecond })
	refuse(func(topic string, _ []byte) bool { return true })
	p.until("refused refresh", i, func(s publisher.Stats) bool { return s.Refused >= before+3 })
	p.forget()
	g.refuse("", nil)
	p.eventually("the refresh after all", func() error { return p.atLeast(3, "m42/order/", "m42/state-index") })
	p.inSync()
}
