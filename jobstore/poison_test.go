package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// odd is an error reply that Takt knows nothing of.
func (s *shop) odd(text string) error {
	s.t.Helper()
	err := s.srv.Client.Do(s.t.Context(), s.srv.Client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(text).Build()).Error()
	if err == nil {
		s.t.Fatal("no error")
	}
	return fmt.Errorf("jobstore: %w", err)
}

// others commits something that is not the suspect's.
func (s *shop) others(id string) {
	s.t.Helper()
	o := &isa95.JobOrder{JobOrderID: id}
	s.commit(s.load(jobstore.Query{JobOrderID: isa95.JobOrderID(id), Scope: "m42"}), jobstore.Change{
		Transition: &jobstore.Transition{Method: isa95.Store, Order: o, State: isa95.State{Top: isa95.NotAllowedToStart, Sub: isa95.Ready}}, Now: s.Now(),
	})
}

func (s *shop) intakeDead() []map[string]string {
	s.t.Helper()
	entries, err := s.do("XRANGE", s.keys.IntakeDead(), "-", "+").AsXRange()
	if err != nil {
		s.t.Fatal(err)
	}
	var all []map[string]string
	for _, e := range entries {
		all = append(all, e.FieldValues)
	}
	return all
}

func answer(id string) jobstore.Message {
	return jobstore.Message{Kind: "answer", Event: cloudevent.Event{
		ID: id, Source: "urn:cell", SpecVersion: "1.0", Type: "done.v1", Subject: "m42", CausationID: "c-" + id, Data: []byte(`{"depth":1}`),
		DataContentType: cloudevent.ContentTypeJSON, Delivery: cloudevent.Delivery{Topic: "takt/responses/a"},
	}}
}

// An unknown error belongs to the message only if it came ten times, over the whole patience, while others were committed. Then the
// message is a dead letter, once, with its text and attributes; until then it is held.
func TestUnknownErrorBecomesADeadLetter(t *testing.T) {
	const patience = 50 * time.Millisecond
	s := openShop(t, testenv.Redis(t), jobstore.Options{Patience: patience})
	odd, ctx := s.odd("ODD trouble"), t.Context()
	began := time.Now()
	for try := 1; try <= 15 || time.Since(began) < 2*patience; try++ {
		if err := s.Failed(ctx, answer("quiet"), odd); err == nil {
			t.Fatalf("try %d: given up although nothing else was committed: it may be the server", try)
		}
	}
	s.others("JO-1")
	if err := s.Failed(ctx, answer("quiet"), odd); err != nil {
		t.Errorf("held for ever: %v", err)
	}
	if err := s.Failed(ctx, answer("few"), odd); err == nil {
		t.Error("given up at the first failure")
	}
	s.others("JO-2")
	for range 3 { // equipment repeats it: no second letter
		if err := s.Failed(ctx, answer("quiet"), odd); err != nil {
			t.Errorf("a repetition is held: %v", err)
		}
	}
	letters := s.intakeDead()
	if len(letters) != 1 {
		t.Fatalf("%d dead letters: %v", len(letters), letters)
	}
	for field, want := range map[string]string{
		"dead-reason": "failed", "kind": "answer", "topic": "takt/responses/a", "type": "done.v1", "source": "urn:cell", "id": "quiet", "subject": "m42",
	} {
		if got := letters[0][field]; got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	var ev cloudevent.Event
	if err := ev.UnmarshalJSON([]byte(letters[0]["event"])); err != nil || string(ev.Data) != `{"depth":1}` || ev.CausationID != "c-quiet" {
		t.Errorf("the event cannot be sent again: %v %+v", err, ev)
	}
	if !strings.Contains(letters[0]["dead-error"], "ODD trouble") {
		t.Errorf("the error is %q", letters[0]["dead-error"])
	}
	violations, err := s.Check(ctx, jobstore.CheckOptions{Grace: time.Hour, AnyScope: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(violations), s.keys.IntakeDead()+": 1 messages could not be handled") {
		t.Errorf("check reports %v", violations)
	}
}

// What Redis says of itself, and a conflict, never make a dead letter; what cannot change makes one at once.
func TestWhatIsGivenUp(t *testing.T) {
	s := openShop(t, testenv.Redis(t), jobstore.Options{Patience: time.Millisecond})
	ctx := t.Context()
	for _, text := range []string{"NOPERM no", "OOM full", "READONLY replica", "NOAUTH no", "LOADING now", "NOREPLICAS few"} {
		err := s.odd(text)
		for i := range 30 {
			s.others(fmt.Sprintf("JO-%.4s-%d", text, i))
			if got := s.Failed(ctx, answer(text), err); !errors.Is(got, err) {
				t.Fatalf("%s: try %d: %v", text, i, got)
			}
		}
	}
	for range 30 {
		if err := s.Failed(ctx, answer("conflict"), jobstore.ErrConflict); err == nil {
			t.Fatal("a conflict is given up")
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Failed(over, answer("stopped"), &jobstore.DocumentError{Key: "k", Err: errors.New("cut")}); err == nil {
		t.Error("given up by a process that stops")
	}
	if letters := s.intakeDead(); len(letters) != 0 {
		t.Fatalf("dead letters: %v", letters)
	}
	for name, err := range map[string]error{
		"wrong type": s.odd("WRONGTYPE Operation against a key"), "document": fmt.Errorf("load: %w", &jobstore.DocumentError{Key: "k", Err: errors.New("cut")}),
	} {
		if got := s.Failed(ctx, answer(name), err); got != nil {
			t.Errorf("%s is held: %v", name, got)
		}
	}
	if letters := s.intakeDead(); len(letters) != 2 || letters[0]["dead-reason"] != "final" {
		t.Errorf("dead letters: %v", letters)
	}
}

// A dead letter that cannot be written holds the message if Redis does not serve, and lets it go if something else has taken the key.
func TestDeadLetterThatCannotBeWritten(t *testing.T) {
	s := openShop(t, testenv.Redis(t), jobstore.Options{})
	broken := &jobstore.DocumentError{Key: "k", Err: errors.New("cut")}
	s.do("SET", s.keys.IntakeDead(), "foreign")
	if err := s.Failed(t.Context(), answer("1"), broken); err != nil {
		t.Errorf("held for ever: %v", err)
	}
	if got, _ := s.do("GET", s.keys.IntakeDead()).ToString(); got != "foreign" {
		t.Errorf("the foreign key is %q", got)
	}
}

// The dead letters are bounded by number and by bytes; the latest is always kept.
func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	const number, bytes = 8, 2 << 20
	s := openShop(t, testenv.Redis(t), jobstore.Options{})
	s.BoundLetters(number, bytes)
	broken := &jobstore.DocumentError{Key: "k", Err: errors.New("cut")}
	for i := range number + 4 {
		if err := s.Failed(t.Context(), answer(fmt.Sprint(i)), broken); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.number("XLEN", s.keys.IntakeDead()); n != number {
		t.Errorf("%d letters", n)
	}
	for i := range number {
		m := answer(fmt.Sprint("large-", i))
		m.Event.Data = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
		if err := s.Failed(t.Context(), m, broken); err != nil {
			t.Fatal(err)
		}
	}
	held, letters := 0, s.intakeDead()
	for _, l := range letters {
		held += len(l["event"])
	}
	if held > bytes || held < bytes/2 || letters[len(letters)-1]["id"] != fmt.Sprint("large-", number-1) {
		t.Errorf("%d letters of %d bytes, the last %s of %s", len(letters), held, letters[len(letters)-1]["id"], letters[len(letters)-1]["bytes"])
	}
}

// A command that Redis answers with the same unknown error while others are handled leaves the outbox for the dead letters, and does not
// spin.
func TestPoisonInTheOutbox(t *testing.T) {
	t.Parallel()
	const giveUp = 3
	s := openShop(t, testenv.Redis(t), jobstore.Options{Patience: 100 * time.Millisecond})
	s.GiveUpAfter(giveUp)
	x := s.run("m42", "JO-1")
	odd := s.odd("ODD trouble")
	tries := 0
	s.live(func(ctx context.Context) error {
		return s.RunOutbox(ctx, 1, nil, func(_ context.Context, c recipe.Command) error {
			if c.ID != x.Actions[0].CommandID {
				return nil
			}
			tries++
			s.others(fmt.Sprintf("JO-other-%d", tries))
			return odd
		})
	})
	eventually(t, "the outbox is empty", func() bool { return s.number("XLEN", s.keys.SfcOutbox()) == 0 })
	if n := s.number("XLEN", s.keys.DeadLetter(s.keys.SfcOutbox())); n != 1 || tries < giveUp {
		t.Errorf("%d dead letters after %d tries", n, tries)
	}
}
