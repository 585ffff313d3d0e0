package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// takt bench jobs --live measures a Store in an empty scope and in one with live job orders, and leaves nothing behind.
func TestBenchLive(t *testing.T) {
	long.Test(t, "measures for 15 s")
	t.Parallel()
	redis, broker := testenv.Redis(t), testenv.Mosquitto(t)
	prefix := redis.Prefix(t)
	code, out, errOut := takt("bench", "jobs", "--live", "20", "-n", "10", "--json", "--prefix", prefix, "--redis", redis.URL, "--mqtt", broker.URL, "--data", t.TempDir())
	var found map[string]any
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil {
		t.Fatalf("exit status %d, %v\n%s%s", code, err, out, errOut)
	}
	for name, want := range map[string]float64{"live_orders": 20, "stores": 10, "large_indexes": 0} {
		if found[name] != want {
			t.Errorf("%s is %v, want %v", name, found[name], want)
		}
	}
	for _, name := range []string{"redis_ratio", "takt_ratio", "redis_ms_per_store_live", "takt_ms_per_store_live"} {
		if _, ok := found[name].(float64); !ok {
			t.Errorf("%s is %v", name, found[name])
		}
	}
	if size, _ := found["index_bytes"].(float64); size < 20*50 {
		t.Errorf("index_bytes is %v: the scope has 20 job orders", found["index_bytes"])
	}
	left, err := redis.Client.Do(t.Context(), redis.Client.B().Keys().Pattern(prefix+"*").Build()).AsStrSlice()
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestBenchLiveRefuses(t *testing.T) {
	t.Parallel()
	for _, wrong := range [][]string{{"--live=-1"}, {"--live", "5", "--stations", "1"}} {
		code, _, errOut := takt(append([]string{"bench", "jobs", "--redis", "redis://127.0.0.1:1", "--mqtt", "mqtt://127.0.0.1:1"}, wrong...)...)
		if code != exitUsage || !strings.Contains(errOut, "must be 0 to 100000") && !strings.Contains(errOut, "--live needs 2") {
			t.Errorf("%v: exit status %d\n%s", wrong, code, errOut)
		}
	}
}
