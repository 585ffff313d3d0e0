package console

import (
	"context"
	"net/http"
	"sync"

	"github.com/taktworks/takt/internal/telemetry"
)

// source is a client that is opened when a page first needs it, and kept until the console ends.
type source[C any] struct {
	open  func(ctx context.Context) (C, error) // nil: this console has none
	close func(C)

	mu     sync.Mutex
	client C
	has    bool
}

// get is the client, or a *problem that says why there is none.
func (s *source[C]) get(ctx context.Context) (client C, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has {
		return s.client, nil
	}
	if s.open == nil {
		return client, &problem{http.StatusNotFound, "Not set up", "This console was started without what this page shows."}
	}
	if client, err = s.open(ctx); err != nil {
		return client, &problem{http.StatusServiceUnavailable, "The store does not answer", "What this page shows cannot be reached: " + telemetry.Hide(err.Error()) + ". The page comes back by itself once it can."}
	}
	s.client, s.has = client, true
	return client, nil
}

// end closes the client, if one was opened.
func (s *source[C]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has {
		s.close(s.client)
	}
}
