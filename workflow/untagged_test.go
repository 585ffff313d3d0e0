package workflow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow"
)

// One shard under a prefix without a hash tag is refused on a cluster before anything is written, and what to do is said.
func TestUntaggedOnACluster(t *testing.T) {
	srv := testenv.RedisCluster(t)
	for _, prefix := range []string{"", "flows", "flows{}"} {
		o := workflow.Options{Prefix: prefix}
		_, made := workflow.New(srv.Client, o)
		_, opened := workflow.Open(t.Context(), srv.URL, o)
		var refused *redis.Error
		if !errors.As(opened, &refused) {
			t.Errorf("%q: Open: %v", prefix, opened)
		}
		for _, err := range []error{made, opened} {
			if err == nil || !strings.Contains(err.Error(), "Options.Shards") || !strings.Contains(err.Error(), "Options.Prefix {") {
				t.Errorf("%q: %v", prefix, err)
			}
		}
	}
	srv.Own("{flows}", "{many-0}")
	for _, o := range []workflow.Options{{Prefix: "{flows}"}, {Prefix: "many", Shards: 2}} {
		c, err := workflow.Open(t.Context(), srv.URL, o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		c.Close()
	}
}
