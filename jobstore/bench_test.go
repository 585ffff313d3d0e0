package jobstore_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// What takt job why takes, of an order that runs.
func BenchmarkWhy(b *testing.B) {
	s := newShop(b)
	s.run("m42", "JO-1")
	for b.Loop() {
		situation, err := s.Situation(b.Context(), "JO-1")
		if err != nil || len(situation.Why("takt").Reasons) == 0 {
			b.Fatal(err)
		}
	}
}

// What passes from a commit, which is part of it, until takt job chart --watch has the change.
func BenchmarkHistoryFollow(b *testing.B) {
	s := newShop(b)
	s.run("m42", "JO-1")
	r := s.History("JO-1")
	if _, err := r.Next(b.Context(), 0); err != nil {
		b.Fatal(err)
	}
	got := make(chan []jobstore.HistoryEntry)
	attempt := 2
	for b.Loop() {
		go func() {
			entries, err := r.Next(b.Context(), time.Minute)
			if err != nil {
				b.Error(err)
			}
			got <- entries
		}()
		s.advance("JO-1", attempt, 10)
		if entries := <-got; len(entries) != 1 || entries[0].State.Top != isa95.Running {
			b.Fatalf("%+v", entries)
		}
		attempt++
	}
}

// What the history of an order of 2,000 entries takes to read whole.
func BenchmarkHistory(b *testing.B) {
	s := newShop(b)
	s.run("m42", "JO-1")
	for i := range 2000 {
		s.advance("JO-1", i+2, 100)
	}
	for b.Loop() {
		if n := len(s.read("JO-1")); n != 2002 {
			b.Fatal(n)
		}
	}
}
