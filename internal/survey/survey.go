// Package survey runs what looks at a whole system: on demand, once at a time whoever asks, and keeps what the last run found.
package survey

import (
	"context"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/telemetry"
)

// Survey is something that is found out. Run must not change while Serve runs what was asked for.
type Survey[T any] struct {
	Run    func(ctx context.Context) ([]T, error) // nil: it cannot be found out here
	within time.Duration
	asked  chan struct{}

	mu    sync.Mutex
	state State[T]
}

// State is how far one is, and what the last one found.
type State[T any] struct {
	Began   time.Time `json:"began,omitzero"` // of the one that goes on; zero: none does
	Ended   time.Time `json:"ended,omitzero"` // of the last one; zero: there was none
	Seconds float64   `json:"seconds"`        // that it took
	Problem string    `json:"problem,omitempty"`
	Total   int       `json:"total"`
	Found   []T       `json:"found"` // at most 1,000
}

const kept = 1000 // findings

// New is one whose runs end after within.
func New[T any](within time.Duration, run func(context.Context) ([]T, error)) *Survey[T] {
	return &Survey[T]{Run: run, within: within, asked: make(chan struct{}, 1)}
}

// Ask begins one, unless one goes on.
func (s *Survey[T]) Ask() (begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun = s.state.Began.IsZero() && s.Run != nil; begun {
		s.state.Began = time.Now().UTC()
		s.asked <- struct{}{} // has room, for none goes on
	}
	return begun
}

// Now is how far it is; nil: it cannot be found out here.
func (s *Survey[T]) Now() *State[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Run == nil {
		return nil
	}
	state := s.state
	return &state
}

// Serve does what is asked for until ctx ends.
func (s *Survey[T]) Serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.asked:
		}
		within, cancel := context.WithTimeout(ctx, s.within)
		found, err := s.Run(within)
		cancel()
		s.mu.Lock()
		end := State[T]{Ended: time.Now().UTC(), Total: len(found), Found: append([]T{}, found[:min(len(found), kept)]...)}
		if end.Seconds = end.Ended.Sub(s.state.Began).Round(10 * time.Millisecond).Seconds(); err != nil {
			end.Problem = telemetry.Hide(err.Error())
		}
		s.state = end
		s.mu.Unlock()
	}
}
