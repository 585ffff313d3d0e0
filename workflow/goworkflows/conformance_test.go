package goworkflows_test

import (
	"fmt"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/test"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// open connects to srv under a prefix of its own. It is closed when the test ends.
func open(t testing.TB, srv *testenv.RedisServer, opts ...backend.BackendOption) *goworkflows.Backend {
	t.Helper()
	return openAt(t, fmt.Sprintf("%s?prefix=%s", srv.URL, srv.Prefix(t)), opts...)
}

// openAt connects to a URL. It is closed when the test ends.
func openAt(t testing.TB, url string, opts ...backend.BackendOption) *goworkflows.Backend {
	t.Helper()
	b, err := goworkflows.Open(t.Context(), url, opts...)
	testenv.Must(t, err)
	t.Cleanup(func() { shut(t, b) })
	return b
}

func shut(t testing.TB, b backend.Backend) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// The library's own suites, each case on keys of its own; on shards with parents and children on different ones wherever it happens so.
func TestBackend(t *testing.T) { suite(t, test.BackendTest) }

func TestEndToEnd(t *testing.T) { suite(t, test.EndToEndBackendTest) }

func suite(t *testing.T, run func(*testing.T, func(...backend.BackendOption) test.TestBackend, func(test.TestBackend))) {
	t.Parallel()
	srv := testenv.Redis(t)
	const shards = 4
	for name, at := range map[string]func() string{
		"one shard": func() string { return fmt.Sprintf("%s?prefix=%s", srv.URL, srv.Prefix(t)) },
		"shards": func() string {
			return fmt.Sprintf("%s?prefix=%s&shards=%d", srv.URL, srv.ShardedPrefix(t, shards), shards)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(opts ...backend.BackendOption) test.TestBackend { return openAt(t, at(), opts...) }, func(b test.TestBackend) { shut(t, b) })
		})
	}
}
