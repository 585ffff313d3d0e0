package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
)

// deciders decide what is kept aside, each kind in its way.
type deciders struct {
	mu      sync.Mutex
	decided map[string]bool // what is decided too late is decided again
	tries   map[string]int
	by      map[string]func(ctx context.Context, try int) error
}

func (d *deciders) DecideAside(ctx context.Context, m jobstore.Aside) error {
	d.mu.Lock()
	d.tries[m.Kind]++
	do, try := d.by[m.Kind], d.tries[m.Kind]
	d.mu.Unlock()
	if do != nil {
		if err := do(ctx, try); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.decided == nil {
		d.decided = make(map[string]bool)
	}
	d.decided[m.Queue+" "+m.Kind+" "+string(m.Message)] = true
	return nil
}

func (d *deciders) LetterOf(m jobstore.Aside) jobstore.Message {
	return jobstore.Message{Kind: m.Kind, Event: cloudevent.Event{ID: string(m.Message), Source: "urn:cell", Type: "done.v1"}}
}

func (d *deciders) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.decided)
}

// aside runs h on both queues until the test ends or stop is called.
func (s *shop) aside(h jobstore.AsideHandler) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{
		s.RunWorker, func(ctx context.Context) error {
			return s.RunAside(ctx, []string{jobstore.AsideCommands, jobstore.AsideEquipment}, h)
		},
	} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	return stop
}

func (s *shop) keep(queue, kind, message string) error {
	return s.KeepAside(s.t.Context(), jobstore.Aside{Queue: queue, Kind: kind, Message: []byte(message)})
}

// What is kept aside is decided, and leaves nothing behind. A message that fails, one that never comes to an end and one that panics become dead letters, and hold up
// no other; what is undecided for a reason of others is tried until it is.
func TestKeptAside(t *testing.T) {
	t.Parallel()
	s := openShop(t, testenv.Redis(t), jobstore.Options{AsideTime: 500 * time.Millisecond, MaxDeliveries: 2})
	for i := range 10 {
		if err := s.keep(jobstore.AsideCommands, "command", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	release := make(chan struct{})
	defer close(release)
	d := &deciders{tries: map[string]int{}, by: map[string]func(context.Context, int) error{
		"fails":  func(context.Context, int) error { return errors.New("no rule for it") },
		"stuck":  func(context.Context, int) error { <-release; return nil },
		"slow":   func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
		"panics": func(context.Context, int) error { panic("oh") },
		"undecided": func(_ context.Context, try int) error {
			if try <= 4 { // more than MaxDeliveries
				return fmt.Errorf("%w: the broker is away", jobstore.ErrUndecided)
			}
			return nil
		},
	}}
	for kind := range d.by {
		if err := s.keep(jobstore.AsideEquipment, kind, kind); err != nil {
			t.Fatal(err)
		}
	}
	s.aside(d)
	eventually(t, "all that can be is decided", func() bool { return d.count() == 11 })
	eventually(t, "the others are dead letters", func() bool { return len(s.intakeDead()) == 4 })
	for _, letter := range s.intakeDead() {
		want := map[string]string{"fails": "no rule", "stuck": "in time", "slow": "in time", "panics": "oh"}[letter["kind"]]
		if letter["id"] != letter["kind"] || !strings.Contains(letter["dead-error"], want) || letter["dead-tries"] == "0" {
			t.Errorf("%v", letter)
		}
	}
	for _, queue := range []string{jobstore.AsideCommands, jobstore.AsideEquipment} {
		eventually(t, "nothing is left", func() bool { return s.number("XLEN", s.keys.IntakeAside(queue)) == 0 })
	}
	eventually(t, "no bytes are counted", func() bool { return s.number("EXISTS", s.keys.IntakeAsideBytes()) == 0 })
	s.do("DEL", s.keys.IntakeDead())
}

// What is kept aside is bounded in bytes, each queue for itself; there is room again when half of it is decided, or an operator deletes the stream.
func TestKeptAsideIsBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	large := strings.Repeat("x", 8<<20)
	for range 8 {
		if err := s.keep(jobstore.AsideCommands, "command", large); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.keep(jobstore.AsideCommands, "command", "x"); !errors.Is(err, jobstore.ErrAsideFull) {
		t.Errorf("%v beyond the bound", err)
	}
	room := func(queue string) error { return s.AsideRoom(t.Context(), queue) }
	if err := room(jobstore.AsideCommands); !errors.Is(err, jobstore.ErrAsideFull) {
		t.Errorf("room: %v", err)
	}
	if err := errors.Join(room(jobstore.AsideEquipment), s.keep(jobstore.AsideEquipment, "answer", "x")); err != nil {
		t.Error(err)
	}
	s.do("DEL", s.keys.IntakeAside(jobstore.AsideCommands))
	if err := errors.Join(room(jobstore.AsideCommands), s.keep(jobstore.AsideCommands, "command", "x")); err != nil {
		t.Error(err)
	}
	d := &deciders{tries: map[string]int{}}
	s.aside(d)
	eventually(t, "both are decided", func() bool { return d.count() == 2 })
	eventually(t, "no bytes are counted", func() bool { return s.number("EXISTS", s.keys.IntakeAsideBytes()) == 0 })
}

// A foreign key in the place of the stream is an error, and stays.
func TestKeepAsideMeetsAForeignKey(t *testing.T) {
	s := newShop(t)
	s.do("SET", s.keys.IntakeAside(jobstore.AsideCommands), "foreign")
	if err := s.keep(jobstore.AsideCommands, "command", "x"); err == nil || s.number("EXISTS", s.keys.IntakeAsideBytes()) != 0 {
		t.Errorf("%v", err)
	}
	if err := s.AsideRoom(t.Context(), jobstore.AsideCommands); err == nil {
		t.Error("there is room in a string")
	}
	s.do("DEL", s.keys.IntakeAside(jobstore.AsideCommands))
}

// What nobody has decided is reported by the check, when it is older than the grace, and by the doctor. The message is not shown: it may have a token.
func TestKeptAsideIsReported(t *testing.T) {
	s := newShop(t)
	row := func() jobstore.Diagnosis {
		t.Helper()
		rows, err := s.Doctor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return rows[len(rows)-1]
	}
	if d := row(); d.Subject != "messages kept aside" || d.Grade != jobstore.Good {
		t.Errorf("none: %+v", d)
	}
	for _, queue := range []string{jobstore.AsideCommands, jobstore.AsideEquipment, jobstore.AsideEquipment} {
		if err := s.KeepAside(t.Context(), jobstore.Aside{Queue: queue, Kind: "k", Message: []byte("secret")}); err != nil {
			t.Fatal(err)
		}
	}
	if d := row(); d.Grade != jobstore.Unsafe || !strings.Contains(d.Found, "3 wait") || d.Next == "" {
		t.Errorf("three: %+v", d)
	}
	for grace, want := range map[time.Duration][]string{
		time.Hour:    nil,
		-time.Minute: {s.keys.IntakeAside(jobstore.AsideCommands) + ": 1 messages", s.keys.IntakeAside(jobstore.AsideEquipment) + ": 2 messages"},
	} {
		found, err := s.Check(t.Context(), jobstore.CheckOptions{Grace: grace})
		if err != nil || len(found) != len(want) {
			t.Fatalf("grace %v: %v %v, want %q", grace, found, err, want)
		}
		for i, v := range found {
			if text := v.String(); !strings.HasPrefix(text, want[i]) || strings.Contains(text, "secret") {
				t.Errorf("%s, want %s", text, want[i])
			}
		}
	}
}
