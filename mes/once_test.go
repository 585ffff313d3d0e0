package mes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

func order(id string) *isa95.JobOrder { return &isa95.JobOrder{JobOrderID: id} }

func onceCall(id string) mes.Call {
	return mes.Call{Scope: scope, Method: isa95.StoreAndStart, JobOrder: order(id)}
}

// storeOnce expects the state.
func (s *stage) storeOnce(t testing.TB, m mes.Memory, call mes.Call, want mes.OrderState) {
	t.Helper()
	if got, err := s.c.StoreOnce(within(t), m, call); got != want || err != nil {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

func (k *fakeTakt) stores() (all []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.received {
		if m, _ := isa95.MethodByTypeID(e.Type); m == isa95.StoreAndStart {
			all = append(all, e.ID)
		}
	}
	return all
}

// TestStoreOnce: over any number of processes an order is sent until Takt has it, made once, and never sent again: not while it
// runs, not after its result, not after Clear.
func TestStoreOnce(t *testing.T) {
	s := newStage(t)
	s.change(func() {})
	for range 3 {
		s.storeOnce(t, openMemory(t, s.file), onceCall("JO-1"), mes.OrderAccepted)
	}
	if got := len(s.stores()); got != 1 {
		t.Errorf("sent %d times", got)
	}
	s.change(func() { s.jobs = nil; s.end("JO-1", "1") })
	memory := openMemory(t, s.file)
	o := s.options(memory)
	o.Clear = false
	stop := following(t, s.c, o)
	s.wait(t, "result JO-1 1")
	settled(t, memory, 2, "JO-1")
	s.storeOnce(t, memory, onceCall("JO-1"), mes.OrderHanded)
	s.change(func() { s.jobs = nil })
	settled(t, memory, 3)
	stop()
	s.storeOnce(t, openMemory(t, s.file), onceCall("JO-1"), mes.OrderGone)
	if len(s.stores()) != 1 || !slices.Equal(s.made, []string{"JO-1"}) {
		t.Errorf("sent %v, made %v", s.stores(), s.made)
	}
}

// TestStoreOnceUnremembered: the process dies before it remembers that the order is accepted. The command that the next one sends has the same
// id while the order is the same; an order that exists counts as stored, whatever its content.
func TestStoreOnceUnremembered(t *testing.T) {
	s := newStage(t)
	for range 2 {
		s.storeOnce(t, mes.NewMemory(), onceCall("JO-1"), mes.OrderAccepted)
	}
	s.commandIDs = map[string]bool{} // longer ago than Takt keeps replies
	s.storeOnce(t, mes.NewMemory(), onceCall("JO-1"), mes.OrderAccepted)
	other := onceCall("JO-1")
	other.JobOrder.Description = []isa95.LocalizedText{{Text: "another"}}
	s.storeOnce(t, mes.NewMemory(), other, mes.OrderAccepted)
	ids := s.stores()
	if len(ids) != 4 || ids[0] != ids[1] || ids[1] != ids[2] || ids[2] == ids[3] || !slices.Equal(s.made, []string{"JO-1"}) {
		t.Errorf("sent %v, made %v", ids, s.made)
	}
}

// TestStoreOnceRefused: what Takt refuses for another reason is an error, nothing is remembered, and the next call asks again.
func TestStoreOnceRefused(t *testing.T) {
	s := newStage(t)
	s.answer = func(e cloudevent.Event) *cloudevent.Event { return reply(e, `{"ReturnStatus":16}`) }
	for range 2 {
		var refused *mes.RefusedError
		if _, err := s.c.StoreOnce(within(t), s.memory, onceCall("JO-1")); !errors.As(err, &refused) || refused.Status != isa95.UnableToAccept || refused.JobOrderState() != isa95.Initial {
			t.Error(err)
		}
	}
	if known, _ := s.memory.Load(within(t), scope); len(known.Accepted) != 0 || len(s.stores()) != 2 {
		t.Error(known, s.stores())
	}
}

func TestStoreOnceUsage(t *testing.T) {
	s := newStage(t)
	for _, row := range []struct {
		call mes.Call
		want string
	}{
		{mes.Call{Scope: scope, Method: isa95.Update, JobOrder: order("JO-1")}, `the method is "Update"`},
		{mes.Call{Scope: scope, Method: isa95.Store}, "the job order is missing"},
		{mes.Call{Scope: scope, Method: isa95.Store, JobOrder: order("")}, "empty"},
		{mes.Call{Scope: scope, Method: isa95.Store, JobOrder: order("a/b")}, `"a/b"`},
	} {
		if _, err := s.c.StoreOnce(within(t), s.memory, row.call); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %q", err, row.want)
		}
	}
	if _, err := s.c.StoreOnce(within(t), badMemory{s.memory, "Order"}, onceCall("JO-1")); !errors.Is(err, errDead) || len(s.stores()) != 0 {
		t.Error(err, s.stores())
	}
	if _, err := s.c.StoreOnce(within(t), badMemory{s.memory, "Accepted"}, onceCall("JO-1")); !errors.Is(err, errDead) || len(s.stores()) != 1 {
		t.Error(err, s.stores())
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.c.StoreOnce(ended, s.memory, onceCall("JO-2")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// badMemory fails in one method.
type badMemory struct {
	mes.Memory
	method string
}

func (m badMemory) Order(ctx context.Context, s isa95.Scope, id isa95.JobOrderID) (mes.Order, error) {
	if m.method == "Order" {
		return mes.Order{}, errDead
	}
	return m.Memory.Order(ctx, s, id)
}

func (m badMemory) Accepted(ctx context.Context, s isa95.Scope, id isa95.JobOrderID) error {
	if m.method == "Accepted" {
		return errDead
	}
	return m.Memory.Accepted(ctx, s, id)
}

// TestStoreOnceWhileItIsCleared: an order of a process before ends, is handed over and cleared while StoreOnce, which found it unknown, sends
// it. The Clear waits until Takt has answered, so that the order is not made again.
func TestStoreOnceWhileItIsCleared(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.end("JO-1", "1") })
	stored, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.answer = func(e cloudevent.Event) *cloudevent.Event {
		if m, _ := isa95.MethodByTypeID(e.Type); m != isa95.StoreAndStart {
			t.Errorf("%s while the order is sent", m)
			return reply(e, `{"ReturnStatus":8}`)
		}
		once.Do(func() { close(stored) })
		s.mu.Unlock()
		<-release
		s.mu.Lock()
		answer := s.store(e)
		s.answer = nil
		return answer
	}
	sent := make(chan error, 1)
	go func() {
		_, err := s.c.StoreOnce(within(t), s.memory, onceCall("JO-1"))
		sent <- err
	}()
	<-stored
	following(t, s.c, s.options(s.memory))
	s.wait(t, "result JO-1 1", "clear JO-1 1")
	close(release)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	s.wait(t, "clear JO-1 1")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.made) != 0 {
		t.Errorf("made again: %v", s.made)
	}
}

// TestLostOrder: an accepted order that a newer index does not list is reported once, if Takt does not know it; StoreOnce sends it
// again under another command id.
func TestLostOrder(t *testing.T) {
	s := newStage(t)
	s.change(func() {})
	o := s.options(s.memory)
	lost := o.OnLost
	o.OnLost = func(ctx context.Context, sc isa95.Scope, id isa95.JobOrderID) error {
		err := lost(ctx, sc, id)
		if err == nil {
			_, err = s.c.StoreOnce(ctx, s.memory, onceCall(string(id)))
		}
		return err
	}
	s.fail["JO-1"] = 2
	stop := following(t, s.c, o)
	settled(t, s.memory, 1)
	s.storeOnce(t, s.memory, onceCall("JO-1"), mes.OrderAccepted)
	s.storeOnce(t, s.memory, onceCall("JO-2"), mes.OrderAccepted)
	s.change(func() {})
	settled(t, s.memory, 2)
	s.change(func() { s.jobs = slices.DeleteFunc(s.jobs, func(j *fakeJob) bool { return j.id == "JO-1" }) })
	for _, line := range []string{"not now JO-1", "not now JO-1", "lost JO-1"} {
		s.wait(t, line, "lost JO-2")
	}
	settled(t, s.memory, 3)
	s.change(func() { s.jobs = nil; s.end("JO-1", "1"); s.end("JO-2", "2") })
	s.wait(t, "result JO-1 1", "lost JO-1", "lost JO-2")
	s.wait(t, "result JO-2 2", "lost JO-1", "lost JO-2")
	if totals := stop(); totals.Lost != 1 {
		t.Errorf("%+v", totals)
	}
	if ids := s.stores(); len(ids) != 3 || ids[0] == ids[2] {
		t.Error(ids)
	}
}

// TestNotLost: what does not mean that an accepted order is lost.
func TestNotLost(t *testing.T) {
	// hidden publishes an index without the order that Takt has all the same: made before the order was stored, sent after.
	hidden := func(s *stage) {
		jobs := s.jobs
		s.jobs = nil
		s.publishIndex()
		s.jobs = jobs
	}
	for name, row := range map[string]struct {
		earlier bool
		then    func(t *testing.T, s *stage) // once JO-1 is accepted
		asked   int                          // how often Takt is asked for results, if there is no trouble
		trouble int64                        // at least; 0 = none
	}{
		"an index from before it": {then: func(t *testing.T, s *stage) {
			s.with(func() {
				jobs := s.jobs
				s.jobs = nil
				s.sendIndex() // the same seq: renewed
				s.jobs = jobs
				hidden(s)
			})
			settled(t, s.memory, 2)
			s.change(func() {})
			settled(t, s.memory, 3)
		}, asked: 1},
		"an empty topic": {then: func(t *testing.T, s *stage) {
			s.retain("state-index", nil)
			s.change(func() {})
			settled(t, s.memory, 2)
		}},
		"canceled by another program": {then: func(t *testing.T, s *stage) {
			s.with(func() { s.jobs[0].state = isa95.State{Top: isa95.EndState}; hidden(s) })
			s.wait(t, "clear JO-1 2")
			settled(t, s.memory, 2)
			s.storeOnce(t, s.memory, onceCall("JO-1"), mes.OrderGone)
		}, asked: 1},
		"a server that does not say whether it has the order": {earlier: true, then: func(t *testing.T, s *stage) {
			s.with(func() { hidden(s) })
			settled(t, s.memory, 2)
			s.change(func() { s.jobs = nil; s.end("JO-1", "1") })
			s.wait(t, "result JO-1 1")
		}, asked: 1},
		"Takt does not answer": {then: func(t *testing.T, s *stage) {
			asked := make(chan struct{}, 100)
			s.with(func() {
				s.answer = func(e cloudevent.Event) *cloudevent.Event {
					asked <- struct{}{}
					return reply(e, `{"ReturnStatus":8}`)
				}
				hidden(s)
			})
			take(t, "a question", asked)
			take(t, "the same again", asked)
			s.with(func() { s.answer = nil })
			settled(t, s.memory, 2)
		}, trouble: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.earlier = row.earlier
			s.change(func() {})
			stop := following(t, s.c, s.options(s.memory))
			settled(t, s.memory, 1)
			s.storeOnce(t, s.memory, onceCall("JO-1"), mes.OrderAccepted)
			row.then(t, s)
			asked := len(s.commands(isa95.RequestJobResponseByJobOrderID))
			if totals := stop(); totals.Lost != 0 || totals.Troubles < row.trouble || row.trouble == 0 && (totals.Troubles > 0 || asked != row.asked) {
				t.Errorf("%+v, asked %d times", totals, asked)
			}
		})
	}
}

// TestNewEpoch: Takt's store has lost changes. Its index has a new epoch, in the body or beside it, and any seq: a gap, and each accepted
// order is looked for.
func TestNewEpoch(t *testing.T) {
	for _, row := range []struct {
		name string
		wire bool
		seq  int64
	}{{"higher", false, 9}, {"the same", true, 5}, {"lower", false, 2}} {
		t.Run(row.name, func(t *testing.T) {
			s := newStage(t)
			s.epoch, s.wire, s.seq = "e1", row.wire, 4
			s.change(func() {})
			following(t, s.c, s.options(s.memory))
			settled(t, s.memory, 5)
			s.storeOnce(t, s.memory, onceCall("JO-1"), mes.OrderAccepted)
			s.with(func() { s.epoch, s.seq, s.jobs = "e2", row.seq, nil; s.sendIndex() })
			for _, line := range []string{"gap 0 5", "new epoch 5 " + string(rune('0'+row.seq)), "lost JO-1"} {
				if got := take(t, line, s.told); got != line {
					t.Errorf("%q, want %q", got, line)
				}
			}
			for ctx := within(t); ; {
				known, err := readMemory(t, s.file).Load(ctx, scope)
				if known.Epoch == "e2" && known.Seq == row.seq {
					break
				}
				if err != nil || ctx.Err() != nil {
					t.Fatal(known, err)
				}
			}
		})
	}
}

// Takt's store was set back after the result was handed over, and the order is over once more before any index shows it without the order.
func TestOrderEndsAgain(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.epoch = "e1" })
	s.storeOnce(t, s.memory, onceCall("JO-1"), mes.OrderAccepted)
	o := s.options(s.memory)
	o.Clear = false
	stop := following(t, s.c, o)
	s.change(func() { s.jobs = nil; s.end("JO-1", "1") })
	s.wait(t, "result JO-1 1")
	settled(t, s.memory, 2, "JO-1")
	s.change(func() { s.epoch, s.jobs = "e2", nil; s.end("JO-1", "2") })
	s.wait(t, "duplicate JO-1", "result JO-1 2")
	if totals := stop(); totals.Results != 1 {
		t.Errorf("%+v", totals)
	}
}

// TestOrderRunsAgain: an older copy of Redis is restored, orders that were cleared run again and end with another result. Those that
// StoreOnce stored are not handed over again, also by the next process, and are cleared.
func TestOrderRunsAgain(t *testing.T) {
	s := newStage(t)
	s.change(func() {})
	s.storeOnce(t, s.memory, onceCall("JO-1"), mes.OrderAccepted)
	stop := following(t, s.c, s.options(s.memory))
	s.change(func() { s.jobs = nil; s.end("JO-1", "1") })
	s.wait(t, "result JO-1 1")
	s.wait(t, "clear JO-1 1")
	settled(t, s.memory, 3)
	stop()
	again := openMemory(t, s.file)
	stop = following(t, newMES(t, s.url, "mes-2"), s.options(again))
	s.change(func() { s.jobs = []*fakeJob{{id: "JO-1", state: isa95.State{Top: isa95.Running}}} })
	settled(t, again, 4)
	s.change(func() { s.jobs = nil; s.end("JO-1", "2") })
	s.wait(t, "duplicate JO-1", "result JO-1 2")
	s.wait(t, "clear JO-1 1", "result JO-1 2")
	settled(t, again, 6)
	if totals := stop(); totals.Results != 0 || totals.Lost != 0 {
		t.Errorf("%+v", totals)
	}
}
