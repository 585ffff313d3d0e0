package e2e_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

var served = regexp.MustCompile(`metrics and health are served.* address=(\S+)`)

// base is the URL of the web server of a process that was started with --http 127.0.0.1:0.
func base(p *rig.Process) string {
	p.Await("metrics and health are served")
	return "http://" + served.FindStringSubmatch(p.Stderr())[1]
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	testenv.Must(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	testenv.Must(t, err)
	return r.StatusCode, string(text)
}

// untilMetric waits until /metrics has a line.
func (s *taskShell) untilMetric(base, line string) {
	s.t.Helper()
	s.until(line, func() bool {
		_, text := get(s.t, base+"/metrics")
		return strings.Contains(text, line+"\n")
	})
}

// A worker and a scheduler show what they do: slots that were submitted, tasks that ran, and whether they are ready.
func TestMetricsOfWorkersAndSchedulers(t *testing.T) {
	long.Test(t, "waits for metrics of other processes")
	t.Parallel()
	s := newTaskShell(t)
	scheduler := rig.Start(t, s.flags([]string{"schedule", "serve", "--http", "127.0.0.1:0"})...)
	worker := s.worker("--name", "test:Tick", "--exec", "cat", "--http", "127.0.0.1:0")
	at, of := base(scheduler), base(worker)
	s.run(ok, "schedule", "add", "tick", "test:Tick", "every 1h")
	s.run(ok, "schedule", "run", "tick")
	s.untilMetric(at, `takt_task_scheduled_total{result="fired"} 1`)
	s.untilMetric(of, `takt_task_runs_total{outcome="done",task="test:Tick"} 1`)
	for _, url := range []string{at + "/livez", at + "/readyz", of + "/livez", of + "/readyz"} {
		s.until(url+" says yes", func() bool { status, _ := get(s.t, url); return status == http.StatusOK }) // readiness has limits in seconds
	}
	scheduler.Stop()
	worker.Stop()
	s.run(failed, "schedule", "serve", "--http", "127.0.0.1:port")
	s.run(failed, "task", "run", "--name", "x", "--exec", "true", "--http", "127.0.0.1:port")
}

// has fails the test unless text has all parts.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

// says runs a command that must fail with code, and with parts on its standard error.
func (s *taskShell) says(code int, parts []string, args ...string) {
	s.t.Helper()
	r := rig.Run(s.t, s.flags(args)...)
	if r.Code != code {
		s.t.Errorf("takt %q: exit status %d, want %d", args, r.Code, code)
	}
	has(s.t, r.Stderr, parts...)
}

// What is set by the command line is followed by a worker that runs, and shown; what is wrong is named (7.3, 7.4 of the task system's description).
func TestTaskConfigCommands(t *testing.T) {
	t.Parallel()
	s := newTaskShell(t)
	if got := s.run(ok, "task", "config", "show", "--json"); got != "{}" {
		t.Errorf("%s", got)
	}
	worker := s.worker("--name", "test:Cat", "--exec", "cat", "--retries", "0")
	s.until("the worker is listed", func() bool { return strings.Contains(s.run(ok, "task", "workers"), "test:Cat") })

	has(t, s.run(ok, "task", "config", "set", "test:Cat", "enabled=false", "max_retries=2", "concurrency_limit=3"), "test:Cat", "false", "2", "3")
	id := s.run(ok, "task", "submit", "test:Cat", "7", "--id", "t-1", "--keep", "1h")
	s.until("it is put off", func() bool { return strings.Contains(s.run(ok, "task", "list", "--state", "delayed"), "t-1") })
	s.run(ok, "task", "config", "set", "test:Cat", "timeout=1m", "--vo", "lhcb")
	if got := s.run(ok, "task", "config", "show", "--name", "test:Cat", "--vo", "lhcb", "--json"); got != `{"common":{"test:Cat":{"concurrency_limit":3,"enabled":false,"max_retries":2,"timeout":"1m0s"}}}` {
		t.Errorf("%s", got)
	}
	has(t, s.run(ok, "task", "config", "unset", "test:Cat", "enabled"), "lhcb")
	s.run(ok, "task", "retry", id)
	s.until("it has run, for its type is enabled again", func() bool {
		return strings.Contains(rig.Run(t, s.flags([]string{"task", "show", id})...).Stdout, "done")
	})

	set := s.run(ok, "task", "config", "show", "--yaml")
	has(t, set, "common:", "max_retries: 2", "vo_overrides:", "timeout: 1m0s")
	s.run(ok, "task", "config", "unset", "test:Cat")
	s.run(ok, "task", "config", "unset", "test:Cat", "--vo", "lhcb")
	if got := s.run(ok, "task", "config", "show", "--json"); got != "{}" {
		t.Errorf("%s", got)
	}
	file := filepath.Join(s.dir, "types.yaml")
	rig.Write(t, file, set)
	s.run(ok, "task", "config", "set", "--file", file)
	if got := s.run(ok, "task", "config", "show", "--yaml"); got != set {
		t.Errorf("%s\nwant\n%s", got, set)
	}
	rig.Write(t, file, `{"common":{"test:Later":{"schedule":"every 5m"}}}`)
	s.says(usage, []string{`"test:Later"`, "test:Cat", "--any-name"}, "task", "config", "set", "--file", file)
	has(t, s.run(ok, "task", "config", "set", "--file", file, "--any-name", "--json"), `{"common":{"test:Later":{"schedule":"every 5m"}}}`)
	s.run(ok, "task", "config", "set", "test:Cat", "schedule=rrule FREQ=WEEKLY;INTERVAL=2")

	rig.Write(t, file, "\n")
	s.says(usage, []string{file, "empty", "{}"}, "task", "config", "set", "--file", file)
	rig.Write(t, file, "common: {test:Cat: {max_retry: 3}}")
	for _, bad := range []struct {
		parts []string
		args  []string
	}{
		{[]string{"test:Dog", "test:Cat"}, []string{"set", "test:Dog", "timeout=1m"}},
		{[]string{"max_retry"}, []string{"set", "test:Cat", "max_retry=3"}},
		{[]string{"max_retry"}, []string{"set", "--file", file}},
		{[]string{"common.test:Cat", "max_retries -1"}, []string{"set", "test:Cat", "max_retries=-1"}},
		{[]string{"vo_overrides.lhcb.test:Cat", "schedule"}, []string{"set", "test:Cat", "schedule=now and then", "--vo", "lhcb"}},
		{[]string{"rate_limit 5", "rate_window"}, []string{"set", "test:Cat", "rate_limit=5"}},
		{[]string{"soon"}, []string{"set", "test:Cat", "timeout=soon"}},
		{[]string{"FIELD=VALUE"}, []string{"set", "test:Cat"}},
		{[]string{"FIELD=VALUE"}, []string{"set", "test:Cat", "timeout=1m", "--file", file}},
		{[]string{"no such file"}, []string{"set", "--file", filepath.Join(s.dir, "none")}},
		{[]string{"key>=<value"}, []string{"set", "test:Cat", "timeout"}},
		{[]string{"--vo"}, []string{"show", "--vo", "lhcb"}},
		{[]string{"--effective"}, []string{"show", "--effective", "--yaml"}},
	} {
		s.says(usage, bad.parts, append([]string{"task", "config"}, bad.args...)...)
	}
	s.says(refused, []string{`"timeout"`, "schedule"}, "task", "config", "unset", "test:Cat", "timeout")
	s.says(refused, []string{"test:Cat for VO cms"}, "task", "config", "unset", "test:Cat", "--vo", "cms")
	worker.Stop()
}

// Queues are waited for and emptied, workers and single locks are looked at.
func TestQueueWorkerAndLockCommands(t *testing.T) {
	long.Test(t, "runs many commands")
	t.Parallel()
	s := newTaskShell(t)
	s.run(ok, "task", "workers")
	for range 3 {
		s.run(ok, "task", "submit", "test:Wait")
	}
	testenv.LongEnough(t, 200*time.Millisecond, func(limit time.Duration) bool { // for a look
		r := rig.Run(t, s.flags([]string{"task", "drain", "normal:medium", "--timeout", limit.String()})...)
		if r.Code != failed {
			t.Errorf("exit status %d, want %d", r.Code, failed)
		}
		t.Logf("within %v: %s", limit, r.Stderr)
		return strings.Contains(r.Stderr, "normal:medium") && strings.Contains(r.Stderr, "3 tasks are left")
	})
	s.says(usage, []string{"--yes"}, "task", "purge", "normal:medium")
	s.says(usage, []string{`"normal:huge"`, "background:large"}, "task", "purge", "normal:huge", "--yes")
	s.says(usage, []string{`"background:huge"`, "realtime:small"}, "task", "drain", "background:huge")
	s.says(usage, []string{"--timeout"}, "task", "drain", "normal:medium", "--timeout=-1s")
	if got := s.run(ok, "task", "purge", "normal:medium", "--yes", "--json"); got != `{"queue":"normal:medium","cancelled":3}` {
		t.Errorf("%s", got)
	}
	if got := s.run(ok, "task", "purge", "normal:medium", "--yes"); got != "0 cancelled" {
		t.Errorf("%s", got)
	}
	if got := s.run(ok, "task", "drain", "normal:medium", "--json"); got != `{"queue":"normal:medium","empty":true}` {
		t.Errorf("%s", got)
	}
	has(t, s.run(ok, "task", "drain", "realtime:small"), "realtime:small is empty")

	gate := filepath.Join(s.dir, "gate")
	s.worker("--name", "test:Gate", "--exec", "until [ -e "+gate+" ]; do sleep 0.05; done", "--concurrency", "1")
	s.until("the worker is listed", func() bool { return strings.Contains(s.run(ok, "task", "workers"), "test:Gate") })
	s.run(ok, "task", "config", "set", "test:Gate", "concurrency_limit=1")
	s.run(ok, "task", "submit", "test:Gate", "--id", "g-1")
	s.until("it runs", func() bool { return strings.Contains(s.run(ok, "task", "workers", "--running"), "g-1") })
	var info struct {
		Types []string
		Alive bool
	}
	if err := json.Unmarshal([]byte(s.run(ok, "task", "workers", "--json")), &info); err != nil || !info.Alive || !slices.Contains(info.Types, "test:Gate") {
		t.Errorf("%+v, %v", info, err)
	}
	var held struct{ Key, Kind string }
	s.until("its slot is listed", func() bool { return json.Unmarshal([]byte(s.run(ok, "lock", "list", "--json")), &held) == nil })
	has(t, s.run(ok, "lock", "show", held.Key), held.Key, "concurrency", "1 slots", "expires in")
	has(t, s.run(ok, "lock", "show", held.Key, "--json"), `"kind":"concurrency"`)
	broken := held
	if err := json.Unmarshal([]byte(s.run(ok, "lock", "break", held.Key, "--yes", "--json")), &broken); err != nil || broken != held {
		t.Errorf("%+v, %v, want %+v", broken, err, held)
	}
	s.says(refused, []string{"lock:mutex:job:*", "nobody"}, "lock", "show", "lock:mutex:job:*")
	rig.Write(t, gate, "")
	has(t, s.run(ok, "task", "drain", "normal:medium", "--timeout", "1m"), "is empty")
}

// Commands that change something say with --json what they changed, one object for each thing (7.4 of the task system's description).
func TestChangesAsJSON(t *testing.T) {
	long.Test(t, "runs many commands")
	t.Parallel()
	s := newTaskShell(t)
	says := func(code int, want string, args ...string) {
		t.Helper()
		if got := s.run(code, append(args, "--json")...); got != want {
			t.Errorf("takt %q:\n%s\nwant\n%s", args, got, want)
		}
	}
	says(ok, `{"queue":"normal:small","paused":true}`, "task", "pause", "normal:small")
	says(ok, `{"queue":"normal:small","rate":0.5}`, "task", "pause", "normal:small", "--rate", "0.5")
	says(ok, `{"queue":"normal:small","paused":false,"rate":0}`, "task", "resume", "normal:small")
	says(ok, `{"name":"test:Cat","paused":true}`, "task", "pause", "--type", "test:Cat")
	says(ok, `{"name":"test:Cat","paused":false}`, "task", "resume", "--type", "test:Cat")

	for _, id := range []string{"l-1", "l-2"} {
		s.run(ok, "task", "submit", "test:Cat", "--id", id, "--in", "1h")
	}
	says(ok, `{"id":"l-1","outcome":"due"}`+"\n"+`{"id":"l-2","outcome":"due"}`, "task", "retry", "l-1", "l-2")
	says(refused, `{"id":"l-1","outcome":"cancelled"}`, "task", "cancel", "l-1", "nobody")
	says(ok, `{"id":"l-1","outcome":"ended"}`, "task", "cancel", "l-1")

	s.worker("--name", "test:Fail", "--exec", "exit 65", "--size", "small")
	dead := func(n int) {
		t.Helper()
		s.until("all are dead", func() bool { return strings.Count(s.run(ok, "task", "dead", "list", "--json"), `"state":"dead"`) == n })
	}
	for _, id := range []string{"f-1", "f-2", "f-3"} {
		s.run(failed, "task", "submit", "test:Fail", "--id", id, "--size", "small", "--wait")
	}
	says(ok, `{"id":"f-1","outcome":"requeued"}`, "task", "retry", "f-1")
	dead(3)
	says(refused, `{"id":"f-2","outcome":"requeued"}`, "task", "dead", "requeue", "f-2", "nobody")
	dead(3)
	says(refused, `{"id":"f-3","outcome":"deleted"}`, "task", "dead", "delete", "f-3", "nobody")
	says(ok, `{"id":"f-1","outcome":"requeued"}`+"\n"+`{"id":"f-2","outcome":"requeued"}`, "task", "dead", "requeue", "--all", "--name", "test:Fail")
	dead(2)
	has(t, s.run(ok, "task", "dead", "delete", "--all", "--json"), `{"id":"f-1","outcome":"deleted"}`, `{"id":"f-2","outcome":"deleted"}`)
	says(ok, "", "task", "dead", "delete", "--all")

	schedule := func(paused bool, args ...string) {
		t.Helper()
		answer, list := s.run(ok, append(args, "--json")...), s.run(ok, "schedule", "list", "--json")
		if answer != list || strings.Contains(answer, `"paused":true`) != paused || !strings.Contains(answer, `"name":"tick"`) {
			t.Errorf("takt %q:\n%s\nwant that of the list, and paused %v:\n%s", args, answer, paused, list)
		}
	}
	schedule(false, "schedule", "add", "tick", "test:Tick", "every 1h")
	schedule(false, "schedule", "add", "tick", "test:Tick", "every 2h", "--update")
	schedule(true, "schedule", "pause", "tick")
	schedule(false, "schedule", "resume", "tick")
	var asked struct{ Name, ID string }
	if err := json.Unmarshal([]byte(s.run(ok, "schedule", "run", "tick", "--json")), &asked); err != nil || asked.Name != "tick" || !strings.HasPrefix(asked.ID, "_tick@") {
		t.Errorf("%+v, %v", asked, err)
	}
	says(ok, `{"name":"tick","outcome":"removed"}`, "schedule", "remove", "tick")
}

// Commands that only look run while Redis takes no writes.
func TestLooking(t *testing.T) {
	t.Parallel()
	srv := testenv.StartRedis(t, embedded.RedisOptions{})
	s := newTaskShellOn(t, srv)
	id := s.run(ok, "task", "submit", "test:Echo", "[1]", "--id", "order/17")
	refuse := func(writes string) {
		t.Helper()
		testenv.Must(t, srv.Client.Do(t.Context(), srv.Client.B().Arbitrary("CONFIG", "SET", "min-replicas-to-write", writes).Build()).Error())
	}
	refuse("1")
	for _, command := range []string{
		"task list", "task stats", "task workers", "task show " + id, "task show order/17", "task dead list", "job list", "schedule list", "lock list", "workflow list", "board list", "board entities",
	} {
		s.run(ok, strings.Fields(command)...)
	}
	refuse("0")
}

// Every command that opens Redis by sentinels with a password of their own takes it from the environment, and names the setting without it.
func TestSentinelPassword(t *testing.T) {
	long.Test(t, "runs a sentinel")
	t.Parallel()
	master := testenv.StartRedis(t, embedded.RedisOptions{Password: "hunter2"})
	master.Own("takt", "taskflow")
	_, port, err := net.SplitHostPort(master.Addr)
	testenv.Must(t, err)
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
