package jobstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/jobstore"
)

// leaseStore opens a store on a server, or through a proxy to it.
func leaseStore(t testing.TB, url, prefix, instance string) *jobstore.Store {
	t.Helper()
	s, err := jobstore.Open(t.Context(), jobstore.Options{URL: url, Prefix: prefix, Instance: instance, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// holder runs Lease in the background; each time it has the lease it sends it on got and holds until told.
type holder struct {
	got    chan *jobstore.Lease
	ctx    chan context.Context // of hold
	finish chan error           // what hold returns
	done   chan error           // what Lease returned
	stop   context.CancelFunc
}

func holdLease(t testing.TB, s *jobstore.Store, role string, ttl time.Duration) *holder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &holder{got: make(chan *jobstore.Lease, 10), ctx: make(chan context.Context, 10), finish: make(chan error, 10), done: make(chan error, 1), stop: cancel}
	go func() {
		h.done <- s.Lease(ctx, role, ttl, func(ctx context.Context, l *jobstore.Lease) error {
			h.got <- l
			h.ctx <- ctx
			select {
			case err := <-h.finish:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(cancel)
	return h
}

func TestLeaseGoesFromHandToHand(t *testing.T) {
	srv := testenv.Redis(t)
	s := leaseStore(t, srv.URL, srv.Prefix(t), "a")
	first := holdLease(t, s, "timers", time.Hour) // the test does not wait for its end
	l := testenv.Take(t, "first lease", first.got)
	if !l.Valid() || l.Token == "" || !strings.HasSuffix(l.Key, ":lease:timers") {
		t.Errorf("lease %q %q, valid %v", l.Key, l.Token, l.Valid())
	}
	second := holdLease(t, s, "timers", time.Hour)
	other := holdLease(t, s, jobstore.RolePublisher, time.Hour)
	if l := testenv.Take(t, "lease of another role", other.got); !strings.HasSuffix(l.Key, ":publisher:lease") {
		t.Errorf("the publisher's lease is %q", l.Key)
	}
	select {
	case <-second.got:
		t.Fatal("two have one lease")
	default:
	}
	first.stop()
	if err := testenv.Take(t, "end of first", first.done); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if l.Valid() || l.Context().Err() == nil {
		t.Error("a lease given back is valid")
	}
	testenv.Take(t, "second lease", second.got)
	want := errors.New("work is over")
	second.finish <- want
	if err := testenv.Take(t, "end of second", second.done); !errors.Is(err, want) {
		t.Errorf("hold's error became %v", err)
	}
	other.finish <- nil
	if err := testenv.Take(t, "end of other", other.done); err != nil {
		t.Errorf("hold's nil became %v", err)
	}
	keys, err := srv.AllKeys(t.Context())
	for _, k := range keys {
		if strings.Contains(k, "lease") {
			t.Errorf("left behind: %s", k)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLeaseIsHeldByOne(t *testing.T) {
	srv := testenv.Redis(t)
	prefix := srv.Prefix(t)
	var holders, terms atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range 4 {
		s := leaseStore(t, srv.URL, prefix, fmt.Sprint("i", i))
		all.Go(func() {
			for range 3 {
				err := s.Lease(ctx, "r", time.Minute, func(context.Context, *jobstore.Lease) error {
					if holders.Add(1) != 1 {
						t.Error("two hold the lease")
					}
					terms.Add(1)
					holders.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if terms.Load() != 12 {
		t.Errorf("%d terms, want 12", terms.Load())
	}
}

// A lease is renewed as long as it is held, also after the stop while hold finishes its work.
func TestLeaseIsRenewed(t *testing.T) {
	long.Test(t, "waits for a lease to be renewed")
	srv := testenv.Redis(t)
	s := leaseStore(t, srv.URL, srv.Prefix(t), "a")
	ctx, stop := context.WithCancel(t.Context())
	const ttl = 3 * time.Second // longer than a busy machine holds up who renews it
	err := s.Lease(ctx, "r", ttl, func(ctx context.Context, l *jobstore.Lease) error {
		stop()
		testenv.Take(t, "end of hold's context", ctx.Done())
		for range 2 {
			do := func(cmd rueidis.Completed) int64 {
				n, err := srv.Client.Do(context.Background(), cmd).AsInt64()
				if err != nil {
					t.Error(err)
				}
				return n
			}
			do(srv.Client.B().Pexpire().Key(l.Key).Milliseconds(time.Hour.Milliseconds()).Build()) // a renewal makes it less
			eventually(t, "the lease is renewed after the stop", func() bool {
				return do(srv.Client.B().Pttl().Key(l.Key).Build()) <= ttl.Milliseconds()
			})
		}
		if l.Context().Err() != nil {
			return errors.New("the lease ended with the stop")
		}
		holder, err := srv.Client.Do(context.Background(), srv.Client.B().Get().Key(l.Key).Build()).ToString()
		if err != nil || holder != l.Token || !l.Valid() {
			return fmt.Errorf("after the renewals: held by %q, valid %v, %w", holder, l.Valid(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Who lost the lease knows it, whatever took it, and waits for it again.
func TestLeaseIsLost(t *testing.T) {
	long.Test(t, "waits for a lease to be missed")
	srv := testenv.Redis(t)
	prefix := srv.Prefix(t)
	for name, lose := range map[string]func(l *jobstore.Lease){
		"deleted": func(l *jobstore.Lease) {
			srv.Client.Do(t.Context(), srv.Client.B().Del().Key(l.Key).Build())
		},
		"taken": func(l *jobstore.Lease) {
			srv.Client.Do(t.Context(), srv.Client.B().Set().Key(l.Key).Value("somebody").PxMilliseconds(300).Build())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := leaseStore(t, srv.URL, prefix, name)
			h := holdLease(t, s, name, 300*time.Millisecond)
			l := testenv.Take(t, "lease", h.got)
			ctx := testenv.Take(t, "context", h.ctx)
			lose(l)
			testenv.Take(t, "end of the context", ctx.Done())
			if l.Valid() || !errors.Is(context.Cause(l.Context()), jobstore.ErrLeaseLost) {
				t.Errorf("valid %v, cause %v", l.Valid(), context.Cause(l.Context()))
			}
			if again := testenv.Take(t, "lease again", h.got); again.Token == l.Token {
				t.Error("the new lease has the old token")
			}
			h.stop()
			if err := testenv.Take(t, "end", h.done); err != nil {
				t.Error(err)
			}
		})
	}
}

// The lease ends here before it ends there: trust is counted from before the request was sent.
func TestLeaseEndsHereBeforeItEndsThere(t *testing.T) {
	long.Test(t, "waits for a lease to end")
	srv := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, srv.URL)
	s := leaseStore(t, proxy.URL, srv.Prefix(t), "a")
	proxy.Delay(100 * time.Millisecond)
	h := holdLease(t, s, "r", time.Second)
	l := testenv.Take(t, "lease", h.got)
	ctx := testenv.Take(t, "context", h.ctx)
	proxy.Delay(0)
	proxy.Stall(true)
	eventually(t, "the end of the lease at the server", func() bool {
		n, err := srv.Client.Do(t.Context(), srv.Client.B().Exists().Key(l.Key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	if l.Valid() {
		t.Error("it is valid here after its end there")
	}
	testenv.Take(t, "end of the context", ctx.Done())
	proxy.Stall(false)
	testenv.Take(t, "lease again", h.got)
}

// A reply to the request for the lease that gets lost does not lock its sender out.
func TestLeaseReplyLost(t *testing.T) {
	srv := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, srv.URL)
	s := leaseStore(t, proxy.URL, srv.Prefix(t), "a")
	h := holdLease(t, s, "warm", time.Minute) // so that the server knows the script
	testenv.Take(t, "lease", h.got)
	proxy.LoseReplies(1)
	h2 := holdLease(t, s, "r", time.Hour) // so long it would be locked out
	testenv.Take(t, "lease whose first reply was lost", h2.got)
}

func TestLeaseTooShort(t *testing.T) {
	srv := testenv.Redis(t)
	s := leaseStore(t, srv.URL, srv.Prefix(t), "a")
	err := s.Lease(t.Context(), "r", time.Millisecond, nil)
	if err == nil || !strings.Contains(err.Error(), "at least 100ms") {
		t.Error(err)
	}
}
