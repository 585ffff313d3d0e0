package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// taskShell is the command line on one Redis.
type taskShell struct {
	t           *testing.T
	url, prefix string
	dir         string
}

func newTaskShell(t *testing.T) *taskShell { return newTaskShellOn(t, testenv.Redis(t)) }

func newTaskShellOn(t *testing.T, srv *testenv.RedisServer) *taskShell {
	return &taskShell{t: t, url: srv.URL, prefix: srv.Prefix(t), dir: t.TempDir()}
}

func (s *taskShell) flags(args []string) []string {
	return append(args, "--redis", s.url, "--prefix", s.prefix, "--data", s.dir)
}

// run runs a command, fails the test unless it ends with code, and returns its standard output.
func (s *taskShell) run(code int, args ...string) string {
	s.t.Helper()
	r := rig.Run(s.t, s.flags(args)...)
	if r.Code != code {
		s.t.Errorf("takt %q: exit status %d, want %d\n%s%s", args, r.Code, code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// worker starts takt task run.
func (s *taskShell) worker(args ...string) *rig.Process {
	s.t.Helper()
	p := rig.Start(s.t, s.flags(append([]string{"task", "run"}, args...))...)
	p.Await("worker is up")
	return p
}

// A task by the command line alone: submitted, run by a command, its result awaited; failures, dead letters, cancel, pause, locks.
func TestTaskCommands(t *testing.T) {
	t.Parallel()
	s := newTaskShell(t)
	s.run(ok, "task", "list")
	if got := s.run(ok, "task", "stats"); !strings.Contains(got, "no workers") {
		t.Errorf("stats: %s", got)
	}
	s.worker("--name", "test:Cat", "--exec", "cat", "--retries", "0")
	s.worker("--name", "test:Fail", "--exec", "echo broken >&2; exit 65", "--retries", "5", "--size", "small")
	if got := s.run(ok, "task", "submit", "test:Cat", `[1,{"a":"b"}]`, "--wait"); got != `[1,{"a":"b"}]` {
		t.Errorf("result %s", got)
	}
	one := s.run(ok, "task", "submit", "test:Cat", "7", "--key", "k")
	if two := s.run(ok, "task", "submit", "test:Cat", "7", "--key", "k"); two != one {
		t.Errorf("%s, then %s under one key", one, two)
	}
	if got := s.run(failed, "task", "submit", "test:Fail", "--wait", "--id", "f-1", "--size", "small"); got != "" {
		t.Errorf("a failed task printed %s", got)
	}
	if got := s.run(ok, "task", "dead", "list"); !strings.Contains(got, "f-1") || !strings.Contains(got, "broken") {
		t.Errorf("dead letters:\n%s", got)
	}
	if got := s.run(ok, "task", "dead", "show", "f-1"); !strings.Contains(got, "broken") {
		t.Errorf("dead letter:\n%s", got)
	}
	s.run(ok, "task", "retry", "f-1")
	s.until("f-1 is dead again", func() bool { return strings.Contains(s.run(ok, "task", "dead", "list"), "f-1") })
	s.run(ok, "task", "dead", "delete", "f-1")
	s.run(refused, "task", "dead", "show", "f-1")
	s.run(refused, "task", "show", "nobody")

	later := s.run(ok, "task", "submit", "test:Cat", "--in", "1h")
	if got := s.run(ok, "task", "show", later); !strings.Contains(got, "delayed") {
		t.Errorf("%s", got)
	}
	if got := s.run(ok, "task", "cancel", later); !strings.Contains(got, "cancelled") {
		t.Errorf("%s", got)
	}
	s.run(ok, "task", "pause", "normal:medium")
	waits := s.run(ok, "task", "submit", "test:Cat")
	if got := s.run(ok, "task", "stats"); !strings.Contains(got, "paused") {
		t.Errorf("stats:\n%s", got)
	}
	s.run(ok, "task", "resume", "normal:medium")
	s.until("it has run", func() bool { return !strings.Contains(s.run(ok, "task", "list"), waits) })
	s.run(ok, "lock", "list")
	s.run(refused, "lock", "break", "lock:mutex:job:42", "--yes")
	s.run(usage, "lock", "break", "lock:mutex:job:42")
	s.run(refused, "task", "show", "a/b")
	for _, bad := range [][]string{
		{"task", "submit", "test:Cat", "{"}, {"task", "submit", ""}, {"task", "submit", "x", "--in", "1s", "--at", "2030-01-01T00:00:00Z"}, {"task", "pause"},
		{"task", "dead", "requeue"}, {"task", "run", "--name", "x", "--exec", "true", "--concurrency", "0"},
	} {
		s.run(usage, bad...)
	}
	s.until("everything has ended", func() bool {
		return strings.Contains(s.run(ok, "task", "check", "--grace", "5s"), "nothing found; 0 tasks")
	})
}

// A pool by the command line alone. Its tasks wait for a worker of their own, and are seen to.
func TestTaskPoolCommands(t *testing.T) {
	long.Test(t, "runs many commands")
	t.Parallel()
	s := newTaskShell(t)
	const alone = "no worker has slots for it"
	s.worker("--name", "test:Cat", "--exec", "cat")
	ref := s.run(ok, "task", "submit", "test:Cat", "7", "--size", "line-3", "--priority", "realtime", "--keep", "1h")
	if !strings.HasPrefix(ref, "realtime:line-3/") {
		t.Errorf("submitted: %s", ref)
	}
	s.until("it is seen to have no worker", func() bool {
		got := s.run(ok, "task", "stats")
		return strings.Count(got, alone) == 1 && strings.Contains(got, "4 medium")
	})
	if got := s.run(failed, "task", "check", "--grace", "0s"); !strings.Contains(got, "no worker has slots for pool line-3") {
		t.Errorf("check:\n%s", got)
	}
	s.run(ok, "task", "pause", "realtime:line-3")
	s.worker("--name", "test:Cat", "--exec", "cat", "--size", "line-3", "--concurrency", "1")
	s.until("it is served", func() bool { return !strings.Contains(s.run(ok, "task", "stats"), alone) })
	if got := s.run(ok, "task", "stats"); !strings.Contains(got, "paused") || !strings.Contains(got, "1 line-3") {
		t.Errorf("stats:\n%s", got)
	}
	if got := s.run(ok, "task", "list", "--queue", "realtime:line-3"); !strings.Contains(got, ref) {
		t.Errorf("list:\n%s", got)
	}
	s.run(ok, "task", "resume", "realtime:line-3")
	s.until("it has run", func() bool { return strings.Contains(s.run(ok, "task", "show", ref), "done") })
	for _, bad := range [][]string{
		{"task", "submit", "test:Cat", "--size", "Line 3"}, {"task", "run", "--name", "x", "--exec", "true", "--size", "normal"},
	} {
		s.run(usage, bad...)
	}
	has(t, s.run(ok, "task", "drain", "realtime:line-3"), "realtime:line-3 is empty")
	has(t, s.run(ok, "task", "purge", "realtime:line-3", "--yes"), "0 cancelled")
}

// A submission that waits for a replica succeeds with one, by flag and by file; without, it says that the task is there, and under its key it can be repeated.
func TestTaskSubmitRedisWait(t *testing.T) {
	long.Test(t, "waits for a replica")
	t.Parallel()
	srv := testenv.Redis(t)
	s := newTaskShellOn(t, srv)
	submit := []string{"task", "submit", "test:Cat", "7", "--key", "k", "--redis-wait", "1", "--redis-wait-within", "100ms"}
	r := rig.Run(t, s.flags(submit)...)
	if r.Code != noAnswer || !strings.Contains(r.Stderr, "0 of 1 replicas") || !strings.Contains(r.Stderr, "--key k") {
		t.Errorf("without a replica: exit status %d, %s", r.Code, r.Stderr)
	}
	testenv.StartReplica(t, srv.Addr)
	s.until("a replica has it", func() bool { return rig.Run(t, s.flags(submit)...).Code == ok })
	if got := s.run(ok, "task", "list", "--json"); strings.Count(got, "test:Cat") != 1 {
		t.Errorf("not one task under one key:\n%s", got)
	}
	file := filepath.Join(s.dir, "takt.yaml")
	testenv.Must(t, os.WriteFile(file, []byte("redis-wait: 2\nredis-wait-within: 1ms\n"), 0o600))
	s.says(noAnswer, []string{"repeat the command with --id "}, "task", "submit", "test:Cat", "--config", file)
	s.run(usage, "task", "submit", "test:Cat", "--redis-wait", "-1")
	s.run(usage, "task", "submit", "test:Cat", "--redis-wait-within", "0s")
}

// Schedules by the command line alone.
func TestScheduleCommands(t *testing.T) {
	t.Parallel()
	s := newTaskShell(t)
	s.run(ok, "schedule", "add", "tick", "test:Tick", "every 1h", "--args", `["x"]`)
	s.says(refused, []string{"exists already", `"tick"`}, "schedule", "add", "tick", "test:Tick", "every 1h")
	s.says(usage, []string{`kind "now"`}, "schedule", "add", "tock", "test:Tick", "now and then")
	for _, verb := range []string{"pause", "resume", "run", "remove"} {
		s.says(refused, []string{"no such schedule", `"tock"`}, "schedule", verb, "tock")
	}
	s.says(refused, []string{"no such schedule"}, "schedule", "add", "tock", "test:Tick", "every 1h", "--update")
	if got := s.run(ok, "schedule", "list"); !strings.Contains(got, "tick") || !strings.Contains(got, "no scheduler runs") {
		t.Errorf("%s", got)
	}
	for range 2 {
		rig.Start(t, s.flags([]string{"schedule", "serve", "--lease", "1s"})...).Await("scheduler is up")
	}
	id := s.run(ok, "schedule", "run", "tick")
	s.until("its task waits", func() bool { return strings.Contains(s.run(ok, "task", "list"), id) })
	s.run(ok, "schedule", "pause", "tick")
	if got := s.run(ok, "schedule", "list"); !strings.Contains(got, "paused") {
		t.Errorf("%s", got)
	}
	s.run(ok, "schedule", "resume", "tick")
	s.run(ok, "schedule", "remove", "tick")
	if got := s.run(ok, "schedule", "list", "--json"); got != "" {
		t.Errorf("%s", got)
	}
}

func (s *taskShell) until(what string, f func() bool) {
	s.t.Helper()
	testenv.Eventually(s.t, what, f)
}

// readFile is the text of a file, "" if there is none yet.
func readFile(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}
