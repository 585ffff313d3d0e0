// Package redisboard keeps a job board in Redis in the layout of TaskFlow 1.15 to 6, byte for byte. Programs use package board.
//
// Each operation is one script and one round trip. Beside the keys of TaskFlow there are some that only Takt reads: docs/reference/keys.md.
package redisboard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
)

const (
	defaultNamespace = "taskflow"
	maxNamespace     = 256 // bytes
)

// Store is one board in Redis. It is a driver.Store.
type Store struct {
	rdb    rueidis.Client
	keys   keys.Board
	log    *slog.Logger
	clock  atomic.Pointer[reading]
	looks  bool // only reads
	closed atomic.Bool

	lookEvery time.Duration
}

var _ driver.Store = (*Store)(nil)

// Open connects. The namespace is part of the URL; on a cluster it must have a hash tag, such as {taskflow}, and users of TaskFlow must name the same.
func Open(ctx context.Context, o driver.Connect) (*Store, error) {
	server, namespace, err := split(o.URL)
	if err != nil {
		return nil, err
	}
	rdb, err := redis.Connect(ctx, redis.Options{
		URL: server, Username: o.Username, Password: o.Password, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword, ServerName: o.ServerName,
		Prefix: namespace, PrefixOption: "?namespace=", Looks: o.Looks, Log: o.Log, ClientName: "takt-board",
	})
	if err != nil {
		return nil, err
	}
	s := &Store{rdb: rdb, keys: keys.NewBoard(namespace), log: o.Log, looks: o.Looks, lookEvery: lookEvery}
	if err := s.askClock(ctx); err != nil {
		rdb.Close()
		return nil, fmt.Errorf("board: %w", err)
	}
	return s, nil
}

// split takes the namespace out of a URL.
func split(raw string) (server, namespace string, err error) {
	server, query, _ := strings.Cut(raw, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", "", driver.Invalid("URL", "has a query that cannot be read", "must be like ?namespace=taskflow")
	}
	namespace = defaultNamespace
	if q.Has("namespace") {
		namespace = q.Get("namespace")
	}
	if len(namespace) > maxNamespace || !utf8.ValidString(namespace) || strings.ContainsFunc(namespace, unicode.IsControl) {
		return "", "", driver.Invalid("namespace", fmt.Sprintf("%.64q", namespace), fmt.Sprintf("must be UTF-8 without control characters, at most %d bytes", maxNamespace))
	}
	q.Del("namespace")
	for name := range q {
		if name != "db" {
			return "", "", driver.Invalid("URL", fmt.Sprintf("with the parameter %.64q", name), "must have no parameters but namespace, and db for sockets")
		}
	}
	if len(q) > 0 {
		server += "?" + q.Encode()
	}
	return server, namespace, nil
}

// Close ends the connection.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		s.rdb.Close()
	}
	return nil
}

// askClock asks the server for its time, and keeps the difference to ours.
func (s *Store) askClock(ctx context.Context) error {
	now, err := redis.ServerTime(ctx, s.rdb)
	if err != nil {
		return s.failed(err)
	}
	s.heard(now.UnixMicro())
	return nil
}

// reading is what the server's clock said, and when that was by ours.
type reading struct{ server, at time.Time }

// heard notes what the server's clock said in µs.
func (s *Store) heard(micros int64) {
	s.clock.Store(&reading{server: time.UnixMicro(micros).UTC(), at: time.Now()})
}

// now is the server's time as far as known, which is what goes into records. It is counted on from the last reading, so that it stays right when our own clock is set.
func (s *Store) now() time.Time {
	r := s.clock.Load()
	return r.server.Add(time.Since(r.at)).Truncate(time.Microsecond)
}

// failed translates an error of the server or the network.
func (s *Store) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case s.closed.Load():
		return driver.ErrClosed
	case redis.Away(err):
		return fmt.Errorf("%w: %w", driver.ErrAway, err)
	case redis.Denied(err):
		return redis.WithRights(err, s.keys.Namespace(), s.looks)
	}
	return err
}

// Compare orders postings as TaskFlow iterates them on Redis: higher priority first, newest first within it.
func (s *Store) Compare(a, b *driver.Posting) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), driver.Compare(b, a))
}
