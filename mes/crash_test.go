package mes_test

import (
	"context"
	"errors"
	"testing"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// dying is a memory of a process that dies at one point: from there on nothing it does has an effect.
type dying struct {
	mes.Memory
	at   string // "handed": before it is written; "settled": before it is written
	dead chan struct{}
	kill context.CancelFunc
}

var errDead = errors.New("the process is dead")

func (m *dying) die(point string) bool {
	select {
	case <-m.dead:
		return true
	default:
	}
	if m.at != point {
		return false
	}
	close(m.dead)
	m.kill()
	return true
}

func (m *dying) Handed(ctx context.Context, s isa95.Scope, id isa95.JobOrderID, r mes.Receipt) error {
	if m.die("handed") {
		return errDead
	}
	return m.Memory.Handed(ctx, s, id, r)
}

func (m *dying) Settled(ctx context.Context, s isa95.Scope, what mes.Settlement) error {
	if m.die("settled") {
		return errDead
	}
	return m.Memory.Settled(ctx, s, what)
}

// TestCrashPoints: the MES dies between two steps and comes back with its file. Only a death between the function and
// the memory hands a result over twice; none loses one.
func TestCrashPoints(t *testing.T) {
	for _, row := range []struct {
		at      string
		results int // how often the function has the result in the end
	}{
		{"before the function", 1},
		{"handed", 2},          // the function has returned, the memory knows nothing
		{"cleared", 1},         // the memory knows, Clear was not sent
		{"answer to Clear", 1}, // Clear was carried out, its answer never came
		{"settled", 1},         // cleared, seq not remembered
	} {
		t.Run(row.at, func(t *testing.T) {
			s := newStage(t)
			s.change(func() { s.end("JO-1", "1") })
			ctx, kill := context.WithCancel(context.Background())
			defer kill()
			memory := &dying{Memory: s.memory, at: row.at, dead: make(chan struct{}), kill: kill}
			o := s.options(memory)
			handOver := o.OnResult
			o.OnResult = func(ctx context.Context, sc isa95.Scope, r isa95.JobResponse) error {
				if row.at == "before the function" {
					kill()
					return errDead
				}
				return handOver(ctx, sc, r)
			}
			s.mu.Lock()
			s.answer = func(e cloudevent.Event) *cloudevent.Event {
				switch row.at {
				case "cleared":
					kill()
					return nil // as if it had never been sent
				case "answer to Clear":
					s.jobs = nil
					s.retain("result/JO-1", nil)
					s.publishIndex()
					kill()
					return nil
				}
				return reply(e, `{"ReturnStatus":1}`)
			}
			s.mu.Unlock()
			if _, err := s.c.Follow(ctx, []isa95.Scope{scope}, o); err != nil {
				t.Fatal(err)
			}

			s.with(func() { s.answer = nil })
			again := openMemory(t, s.file)
			stop := following(t, newMES(t, s.url, "mes-2"), s.options(again))
			last := int64(2) // ended, cleared
			settled(t, again, last)
			stop()
			count := 0
			for _, line := range s.rest() {
				if line == "result JO-1 1" {
					count++
				}
			}
			if count != row.results {
				t.Errorf("handed over %d times, want %d", count, row.results)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.jobs) > 0 {
				t.Error("not cleared in the end")
			}
		})
	}
}

// TestStopIsNoCrash: ctx ends while a result is handed over; it is remembered, and not handed over again.
func TestStopIsNoCrash(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.end("JO-1", "1"); s.end("JO-2", "2") })
	ctx, cancel := context.WithCancel(context.Background())
	o := s.options(s.memory)
	handOver := o.OnResult
	o.OnResult = func(ctx context.Context, sc isa95.Scope, r isa95.JobResponse) error {
		cancel()
		return handOver(ctx, sc, r)
	}
	totals, err := s.c.Follow(ctx, []isa95.Scope{scope}, o)
	if err != nil || totals.Results != 1 || totals.Clears != 0 {
		t.Fatalf("%+v %v", totals, err)
	}
	again := openMemory(t, s.file)
	following(t, newMES(t, s.url, "mes-2"), s.options(again))
	settled(t, again, 3)
	count := map[string]int{}
	for _, line := range s.rest() {
		count[line]++
	}
	if count["result JO-1 1"] != 1 || count["result JO-2 2"] != 1 || count["duplicate JO-1"] != 1 {
		t.Error(count)
	}
}

// TestMemoryThatCannotBeRead ends Follow: with an empty one everything would be handed over again.
func TestMemoryThatCannotBeRead(t *testing.T) {
	s := newStage(t)
	s.change(func() {})
	_, err := s.c.Follow(within(t), []isa95.Scope{scope}, s.options(unreadable{s.memory}))
	if !errors.Is(err, errDead) {
		t.Fatal(err)
	}
}

type unreadable struct{ mes.Memory }

func (unreadable) Load(context.Context, isa95.Scope) (mes.Known, error) { return mes.Known{}, errDead }
