package redis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// A server that cannot wait for its disk is refused before anything is written. One that can (Valkey, Redis 7.2) acknowledges what the append-only files of the master and
// of its replicas have; a replica without such a file never does.
func TestWaitForDisk(t *testing.T) {
	long.Test(t, "runs a replica")
	const within = 50 * time.Millisecond
	local := redis.Wait{ForDisk: true, Within: within}
	both := redis.Wait{ForDisk: true, Replicas: 1, Within: within}
	srv := testenv.StartRedis(t, embedded.RedisOptions{Persist: true, Config: []string{"appendfsync always"}})
	prefix := srv.Prefix(t)
	rdb, err := connect(t, redis.Options{URL: srv.URL, Prefix: prefix})
	testenv.Must(t, err)
	defer rdb.Close()
	set := func(w redis.Wait) error {
		on := w.On(rdb, prefix+":mark")
		return on.Do(t.Context(), rdb.B().Set().Key(prefix+":k").Value("v").Build()).Error()
	}
	short := func(err error) *redis.ReplicasError {
		var short *redis.ReplicasError
		if !errors.As(err, &short) {
			t.Fatalf("error is %v, want a *ReplicasError", err)
		}
		return short
	}
	known, err := rdb.Do(t.Context(), rdb.B().CommandInfo().CommandName("WAITAOF").Build()).ToArray()
	testenv.Must(t, err)
	if len(known) == 0 || known[0].IsNil() {
		if err := local.Probe(t.Context(), rdb); err == nil || !strings.Contains(err.Error(), "unknown command") || !strings.Contains(err.Error(), "Redis 7.2") {
			t.Errorf("a server without WAITAOF: %v", err)
		}
		if e := short(set(local)); e.Err == nil || !strings.Contains(e.Error(), "not known whether the disks") {
			t.Errorf("a write on a server without WAITAOF: %v", e)
		}
		return
	}
	if err := local.Probe(t.Context(), rdb); err != nil {
		t.Errorf("a server with an append-only file: %v", err)
	}
	patient := local
	patient.Within = testenv.Patience
	if err := set(patient); err != nil {
		t.Errorf("the master alone: %v", err)
	}
	replica := testenv.StartReplica(t, srv.Addr) // has no append-only file
	if e := short(set(both)); e.Acknowledged != 0 || e.Want != 1 || e.NotOnMaster || e.Err != nil || e.Within != within {
		t.Errorf("a replica without an append-only file: %+v", e)
	}
	onReplica, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{replica.Addr}, DisableCache: true})
	testenv.Must(t, err)
	defer onReplica.Close()
	testenv.Must(t, onReplica.Do(t.Context(), onReplica.B().ConfigSet().ParameterValue().ParameterValue("appendonly", "yes").Build()).Error())
	patient.Replicas = 1
	if err := set(patient); err != nil {
		t.Errorf("master and replica: %v", err)
	}
	testenv.Must(t, rdb.Do(t.Context(), rdb.B().ConfigSet().ParameterValue().ParameterValue("appendonly", "no").Build()).Error())
	if err := local.Probe(t.Context(), rdb); err == nil || !strings.Contains(err.Error(), "appendonly yes") {
		t.Errorf("a server without an append-only file: %v", err)
	}
}

func TestShortOfDisksSays(t *testing.T) {
	for want, e := range map[string]redis.ReplicasError{
		"stored, but not on the master's disk within 1s (Options.WaitForDisk)":                          {OnDisk: true, NotOnMaster: true, Within: time.Second},
		"stored, but on the disks of 1 of 2 replicas within 1s (Options.Replicas, Options.WaitForDisk)": {OnDisk: true, Acknowledged: 1, Want: 2, Within: time.Second},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
