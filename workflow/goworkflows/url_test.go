package goworkflows

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/workflow"
)

func TestParseURL(t *testing.T) {
	const where = "redis://me:secret@10.0.0.1:6379/3"
	for _, c := range []struct {
		url  string
		want settings
	}{
		{where, settings{redis: where}},
		{where + "?", settings{redis: where}},
		{where + "?prefix=plant%3A1&shards=4&retention=168h&lease=15s", settings{redis: where, core: workflow.Options{Prefix: "plant:1", Shards: 4, Retention: 168 * time.Hour}, lease: 15 * time.Second}},
		{where + "?retention=forever", settings{redis: where, core: workflow.Options{Retention: -1}}},
		{"unix:///run/redis.sock?db=2&prefix=p", settings{redis: "unix:///run/redis.sock?db=2", core: workflow.Options{Prefix: "p"}}},
	} {
		if got, err := parseURL(c.url); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.url, got, err)
		}
	}
}

func TestURLErrors(t *testing.T) {
	const where = "redis://me:secret@10.0.0.1:6379/3"
	for url, says := range map[string][]string{
		where + "?shard=4":                       {`"shard"`, "db, lease, prefix, retention, shards"},
		where + "?prefix=":                       {"prefix", "empty"},
		where + "?prefix=a&prefix=b":             {"prefix", "2 times"},
		where + "?shards=0":                      {"shards", `"0"`, "from 1"},
		where + "?shards=two":                    {"shards", `"two"`},
		where + "?retention=0":                   {"retention", `"0"`, "above 0", "or forever"},
		where + "?retention=-1h":                 {"retention", `"-1h"`},
		where + "?lease=15":                      {"lease", `"15"`, "15s"},
		where + "?prefix=%zz":                    {"parameters"},
		"redis://me:sec?ret@10.0.0.1/3?prefix=p": {"%3F"},
	} {
		_, err := Open(t.Context(), url)
		if err == nil {
			t.Errorf("%s: no error", url)
			continue
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v: does not say %s", url, err, s)
			}
		}
		if strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ret@") {
			t.Errorf("the password is in %v", err)
		}
	}
}
