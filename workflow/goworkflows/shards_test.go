package goworkflows_test

import (
	"fmt"
	"testing"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/test"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// The library's own suites, with parents and children on different shards wherever it happens so.
func TestSuitesOnShards(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	setup := func(opts ...backend.BackendOption) test.TestBackend {
		const shards = 4
		b, err := goworkflows.Open(t.Context(), fmt.Sprintf("%s?prefix=%s&shards=%d", srv.URL, srv.ShardedPrefix(t, shards), shards), opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { shut(t, b) })
		return b
	}
	test.BackendTest(t, setup, func(b test.TestBackend) { shut(t, b) })
	test.EndToEndBackendTest(t, setup, func(b test.TestBackend) { shut(t, b) })
}
