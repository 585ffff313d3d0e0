package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
)

// What a process has taken from a stream and not done is in hand, the rest is not taken; the oldest entry is the one that is not done longest.
func TestConditionOfStreams(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{"1700000000000-0", "1700000005000-0", "1700000010000-0"} {
		testenv.Must(t, s.do("XADD", s.keys.SfcWork(), id, "job_id", "JO-7").Error())
	}
	testenv.Must(t, s.do("XGROUP", "CREATE", s.keys.SfcWork(), "sfc-engine", "0").Error())
	testenv.Must(t, s.do("XREADGROUP", "GROUP", "sfc-engine", "gone", "COUNT", "2", "STREAMS", s.keys.SfcWork(), ">").Error())
	for i := range jobstore.MaxLag + 1 {
		testenv.Must(t, s.do("XADD", s.keys.ChangesAll(), fmt.Sprintf("17000000%02d000-%d", i/10, i+1), "scope", "m42").Error())
	}
	testenv.Must(t, s.do("HSET", s.keys.Cursors(), "_global", "1700000000000-1").Error())
	testenv.Must(t, s.do("SET", s.keys.Lease(jobstore.RoleSweeper), "other-1 0c5a").Error())
	c, err := s.Condition(t.Context())
	testenv.Must(t, err)
	var rows []string
	for _, in := range c.Streams {
		rows = append(rows, fmt.Sprintf("%s %s: %d, %d not taken, %d in hand, oldest %d", in.Name, in.Reader, in.Entries, in.Lag, in.Pending, max(in.Oldest.Unix(), 0)))
	}
	if diff := cmp.Diff([]string{
		"sfc:work sfc-engine: 3, 1 not taken, 2 in hand, oldest 1700000000", "sfc:outbox sfc-outbox: 0, 0 not taken, 0 in hand, oldest 0",
		"event:receiver:list events: 0, 0 not taken, 0 in hand, oldest 0", "joborder:changes:_global publisher: 101, 100 not taken, 0 in hand, oldest 1700000000",
	}, rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]jobstore.InstanceInfo{{Name: "gone", Roles: []string{}, InHand: 2}, {Name: "other-1", Roles: []string{}, Leases: []string{jobstore.RoleSweeper}}}, c.Instances); diff != "" {
		t.Error(diff)
	}
}

// Dead letters are read from the newest on; those that came after the last one named outlive its deletion with all before.
func TestLetters(t *testing.T) {
	s := newShop(t)
	for i := range 5 {
		testenv.Must(t, s.do("XADD", s.keys.IntakeDead(), fmt.Sprintf("1700000000000-%d", i), "dead-error", "x").Error())
	}
	ids := func(before string) (all []string) {
		letters, err := s.Letters(t.Context(), "intake:dead", before, 2)
		testenv.Must(t, err)
		for _, l := range letters {
			all = append(all, l.ID[14:])
		}
		return all
	}
	if diff := cmp.Diff([][]string{{"4", "3"}, {"2", "1"}, {"0"}, nil}, [][]string{ids(""), ids("1700000000000-3"), ids("1700000000000-1"), ids("1700000000000-0")}); diff != "" {
		t.Error(diff)
	}
	for i, call := range []func(context.Context) (int64, error){
		func(ctx context.Context) (int64, error) { return s.DeleteLetter(ctx, "intake:dead", "1700000000000-1") },
		func(ctx context.Context) (int64, error) {
			return s.DeleteLettersUntil(ctx, "intake:dead", "1700000000000-2")
		},
	} {
		if n, err := call(t.Context()); n != int64(i+1) || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
	}
	if left := ids(""); !cmp.Equal(left, []string{"4", "3"}) {
		t.Errorf("%v are left", left)
	}
	if _, err := s.DeleteLettersUntil(t.Context(), "joborder:changes:_global", "1700000000000-2"); !errors.Is(err, jobstore.ErrNotFound) {
		t.Errorf("a stream that has no dead letters: %v", err)
	}
	if _, err := s.DeleteLettersUntil(t.Context(), "intake:dead", "1700000000000"); err == nil {
		t.Error("no id of an entry is taken for one")
	}
	dead, err := s.DeadStreams(t.Context())
	testenv.Must(t, err)
	if dead[0] != (jobstore.DeadStream{Name: "intake:dead", Holds: "commands, answers, events and timers that could not be handled", Letters: 2}) || len(dead) != 5 {
		t.Errorf("%+v", dead)
	}
}

// A letter says why it is dead by its most telling field; the others follow by name, the largest last.
func TestLetterRead(t *testing.T) {
	for _, c := range []struct {
		fields map[string]string
		reason string
		names  []string
	}{
		{map[string]string{"reason": "too large", "dead-error": "no such key", "kind": "command", "empty": ""}, "no such key", []string{"kind", "reason"}},
		{map[string]string{"dead-reason": "tried ten times", "a": strings.Repeat("x", 500), "b": "y"}, "tried ten times", []string{"b", "a"}},
		{map[string]string{"kind": "timer"}, "", []string{"kind"}},
	} {
		letter := jobstore.Letter{Fields: c.fields}
		if reason, names := letter.Read(); reason != c.reason || !cmp.Equal(names, c.names) {
			t.Errorf("%v: %q, %v", c.fields, reason, names)
		}
	}
}
