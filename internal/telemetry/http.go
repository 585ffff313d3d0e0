package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"
)

// checkTime bounds one check of /readyz.
const checkTime = 2 * time.Second

// Server answers /metrics, /livez and /readyz. Fill it in and call Run.
type Server struct {
	// Addr is host:port. Without a host only this machine is served: what is shown here is nobody else's business unless it is said so.
	Addr    string
	Metrics *Metrics
	// Live says why the process must be started again; nil = it need not as long as it answers. It gets two seconds.
	Live func(context.Context) error
	// Ready says, by name, what must work before commands are taken: nil = it does. Each check gets two seconds.
	Ready map[string]func(context.Context) error
	// Warn says, by name, what is not as it should be though commands are taken, "" = nothing. It must not block.
	Warn map[string]func() string
	// Info is shown by /livez beside the status, for example the store's kind and whether it is durable. It is not changed while Run runs.
	Info map[string]any
	Log  *slog.Logger // nil = silent

	listening func(net.Addr) // for tests
}

// Run serves until ctx ends. An address that cannot be listened on is an error at once.
func (s *Server) Run(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return fmt.Errorf("telemetry: address %q: must be host:port or :port: %w", s.Addr, err)
	}
	host = cmp.Or(host, "127.0.0.1")
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("telemetry: %w: choose another address for metrics and health", err)
	}
	if s.Log != nil {
		s.Log.Info("metrics and health are served", "address", l.Addr().String())
	}
	if s.listening != nil {
		s.listening(l.Addr())
	}
	web := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	end := make(chan error, 1)
	go func() { end <- web.Serve(l) }()
	select {
	case err := <-end:
		return fmt.Errorf("telemetry: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	if err := web.Shutdown(last); err != nil {
		web.Close()
	}
	if err := <-end; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics.Handler())
	}
	mux.HandleFunc("GET /livez", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	return mux
}

// health answers as long as the process can, and 503 if Live fails.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	answer, status := map[string]any{"status": "ok"}, http.StatusOK
	maps.Copy(answer, s.Info)
	if s.Live != nil {
		ctx, cancel := context.WithTimeout(r.Context(), checkTime)
		defer cancel()
		if err := s.Live(ctx); err != nil {
			answer["status"], status = Hide(err.Error()), http.StatusServiceUnavailable
		}
	}
	reply(w, status, answer)
}

// Within is a Live that fails once check has failed for longer than patience, counted from now on. A process that hangs with its store is started again so, and one that
// waits for its store for a moment is not.
func Within(patience time.Duration, check func(context.Context) error) func(context.Context) error {
	var mu sync.Mutex
	good := time.Now()
	return func(ctx context.Context) error {
		err := check(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			good = time.Now()
			return nil
		}
		if away := time.Since(good); away > patience {
			return fmt.Errorf("for %v: %w", away.Round(time.Second), err)
		}
		return nil
	}
}

// ready answers 503 with what does not work; beside it, and with 200, stands what is not as it should be.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTime)
	defer cancel()
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		failed = map[string]string{}
	)
	for name, check := range s.Ready {
		wait.Go(func() {
			if err := check(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = Hide(err.Error())
			}
		})
	}
	wait.Wait()
	answer, status := map[string]any{"status": "ready"}, http.StatusOK
	if len(failed) > 0 {
		answer, status = map[string]any{"status": "not ready", "failed": failed}, http.StatusServiceUnavailable
	}
	warnings := map[string]string{}
	for name, warn := range s.Warn {
		if text := warn(); text != "" {
			warnings[name] = Hide(text)
		}
	}
	if len(warnings) > 0 {
		answer["warnings"] = warnings
	}
	reply(w, status, answer)
}

func reply(w http.ResponseWriter, status int, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // whoever asked has gone
}
