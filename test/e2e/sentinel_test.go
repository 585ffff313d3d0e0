package e2e_test

import (
	"net"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// Every command that opens Redis by sentinels with a password of their own takes it from the environment, and names the setting without it.
func TestSentinelPassword(t *testing.T) {
	long.Test(t, "runs a sentinel")
	t.Parallel()
	master := testenv.StartRedis(t, embedded.RedisOptions{Password: "hunter2"})
	master.Own("takt", "taskflow")
	_, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	guard := testenv.StartSentinel(t, "sentinel monitor plant 127.0.0.1 "+port+" 1\nsentinel auth-pass plant hunter2\nrequirepass swordfish\n")
	for _, command := range []string{"job list", "task list", "workflow list", "board list", "schedule list"} {
		c := rig.Command{Args: append(strings.Fields(command), "--redis", "redis+sentinel://:hunter2@"+guard+"/plant", "--data", t.TempDir())}
		if r := rig.RunCommand(t, c); r.Code != noAnswer || !strings.Contains(r.Stderr, "--redis-sentinel-password") {
			t.Errorf("takt %s without the password: exit status %d\n%s", command, r.Code, r.Stderr)
		}
		c.Env = []string{"TAKT_REDIS_SENTINEL_PASSWORD=swordfish"}
		if r := rig.RunCommand(t, c); r.Code != ok {
			t.Errorf("takt %s: exit status %d\n%s", command, r.Code, r.Stderr)
		}
	}
}
