package workflow_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/workflow"
)

// One shard under a prefix without a hash tag is refused on a cluster before anything is written, and what to do is said.
func TestUntaggedOnACluster(t *testing.T) {
	long.Test(t, "runs several servers")
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

// One prefix serves tasks, which need a tag on a cluster, and workflows of many shards, each with a tag of its own: {flows} and flows are the same for those.
func TestTaggedWithShards(t *testing.T) {
	long.Test(t, "runs several servers")
	t.Parallel()
	srv := testenv.RedisCluster(t)
	srv.Own("{flows-0}", "{flows-1}", "{flows-2}")
	tagged, err := workflow.Open(t.Context(), srv.URL, workflow.Options{Prefix: "{flows}", Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer tagged.Close()
	plain, err := workflow.New(srv.Client, workflow.Options{Prefix: "flows", Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for range 6 { // of several shards
		s := starting(fmt.Sprint("a", ids.Add(1)))
		if err := tagged.Start(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if info, err := plain.Info(t.Context(), s.Instance); err != nil || info.Queue != "q" {
			t.Errorf("%+v, %v", info, err)
		}
	}
	for _, prefix := range []string{"flows{a}", "{a}{b}", "{}", "{a", "a}", "{{a}}"} {
		if _, err := workflow.New(srv.Client, workflow.Options{Prefix: prefix, Shards: 3}); err == nil || !strings.Contains(err.Error(), prefix) || !strings.Contains(err.Error(), "braces") {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	if _, err := workflow.Open(t.Context(), srv.URL, workflow.Options{Prefix: "{flows}", Shards: 2}); !errors.Is(err, workflow.ErrShards) {
		t.Errorf("another number of shards: %v", err)
	}
}
