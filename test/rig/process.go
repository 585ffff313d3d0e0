package rig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

// Patience bounds every wait for something that must happen.
var Patience = testenv.Patience

// Command is a process to be started. Only Args is required.
type Command struct {
	Path  string   // default: takt
	Args  []string // without the program
	Dir   string   // working folder; default: one of the test's own
	Env   []string // added to ours, from which all TAKT_ variables are taken
	Typed bool     // Type is its standard input; default: Stdin
	Stdin string   // its standard input
	Dies  string   // a panic or fatal error that the test wants to see, from its first word on; default: none is wanted
}

// Process is a process that a test started. It is killed and reaped when the test ends, and the system kills it if the test
// process dies. Its methods may be called from any goroutine.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser // nil unless Typed
	gone chan struct{}
	dies string

	mu      sync.Mutex
	out     bytes.Buffer // standard output
	err     bytes.Buffer // standard error
	changed chan struct{}
	killed  bool
	left    []child // that it had when it was killed
}

// Start runs takt with args.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartCommand(t, Command{Args: args})
}

// StartCommand runs a process.
func StartCommand(t testing.TB, c Command) *Process {
	t.Helper()
	name := c.Path
	if c.Path == "" {
		c.Path, name = Binary(t), "takt"
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	p := &Process{t: t, name: name + " " + strings.Join(c.Args, " "), gone: make(chan struct{}), dies: c.Dies, changed: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Dir, p.cmd.Env = c.Dir, append(environment(), c.Env...)
	p.cmd.Stdin = strings.NewReader(c.Stdin)
	if c.Typed {
		p.cmd.Stdin = nil
		var err error
		p.in, err = p.cmd.StdinPipe()
		testenv.Must(t, err)
	}
	p.cmd.Stdout, p.cmd.Stderr = output{p, &p.out}, output{p, &p.err}
	p.cmd.WaitDelay = 5 * time.Second // children of the process may hold its output a little longer
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	t.Cleanup(p.cleanup)
	return p
}

// environment is ours without what would configure takt. The race detector shall not wait a second at the end of every process, and no command give up on a broker
// because the machine is busy.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TAKT_") && !strings.HasPrefix(e, "GORACE=") {
			env = append(env, e)
		}
	}
	return append(env, "GORACE=atexit_sleep_ms=0", "TAKT_CONNECT_TIMEOUT=2m")
}

// run starts the process and waits for it. The signal at our death is tied to the thread that started the process.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.gone)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // ProcessState has it
	}
}

// output keeps what a process says and wakes those who wait for it.
type output struct {
	p  *Process
	to *bytes.Buffer
}

func (o output) Write(b []byte) (int, error) {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	close(o.p.changed)
	o.p.changed = make(chan struct{})
	return o.to.Write(b)
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stdout is what the process has said so far.
func (p *Process) Stdout() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Stderr is what the process has said so far on its standard error.
func (p *Process) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

// Type writes text to the standard input of the process.
func (p *Process) Type(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, text); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Await waits until the process has said text, on either output.
func (p *Process) Await(text string) {
	p.t.Helper()
	p.AwaitThat("says "+text, func(out, err string) bool { return strings.Contains(out, text) || strings.Contains(err, text) })
}

// AwaitThat waits until ok holds for what the process has said.
func (p *Process) AwaitThat(what string, ok func(stdout, stderr string) bool) {
	p.t.Helper()
	late := time.After(Patience)
	for {
		p.mu.Lock()
		out, err, changed := p.out.String(), p.err.String(), p.changed
		p.mu.Unlock()
		if ok(out, err) {
			return
		}
		select {
		case <-changed:
		case <-p.gone:
			if !ok(p.Stdout(), p.Stderr()) {
				p.t.Fatalf("%s: ended before it %s", p.name, what)
			}
			return
		case <-late:
			p.t.Fatalf("%s: not within %v that it %s", p.name, Patience, what)
		}
	}
}

// Signal sends a signal; to a process that has ended it does nothing.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%s: signal %v: %v", p.name, s, err)
	}
}

// Gone says whether the process has ended.
func (p *Process) Gone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Kill ends the process at once (SIGKILL) and waits until it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	p.mu.Lock()
	p.killed = true
	p.left = append(p.left, p.children()...)
	p.mu.Unlock()
	p.Signal(syscall.SIGKILL)
	p.wait()
}

// Pause stops the process where it stands (SIGSTOP); Continue lets it go on.
func (p *Process) Pause() { p.Signal(syscall.SIGSTOP) }

// Continue lets a paused process go on.
func (p *Process) Continue() { p.Signal(syscall.SIGCONT) }

// Stop asks the process to end (SIGTERM), waits, and fails the test unless its exit status is 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Exit(); code != 0 {
		p.t.Errorf("%s: exit status %d after SIGTERM, want 0\n%s", p.name, code, p.tail())
	}
}

// Exit waits for the end of the process and returns its exit status, -1 if a signal ended it.
func (p *Process) Exit() int {
	p.t.Helper()
	p.wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *Process) wait() {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(3 * Patience):
		p.t.Fatalf("%s: has not ended within %v\n%s", p.name, 3*Patience, p.tail())
	}
}

// child is a process that a Process started itself.
type child struct {
	pid   int
	began string // the time at which it began, in ticks: the system gives its pid to another process some day
}

// children are those that still run.
func (p *Process) children() []child {
	var all []child
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID())) // the pattern is a good one
	for _, list := range lists {
		text, _ := os.ReadFile(list) // an error: that thread has ended
		for _, word := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(word)
			if began, runs := running(pid); runs {
				all = append(all, child{pid, began})
			}
		}
	}
	return all
}

// running says when a process began. It does not run if it only waits to be reaped.
func running(pid int) (began string, runs bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on: the name of the program may be anything
	return fields[19], fields[0] != "Z"
}

// end asks a child and its group to end, makes them if they do not listen, and waits for it: a server writes what it holds, and a folder of the test cannot be removed meanwhile.
func (p *Process) end(c child) {
	runs := func() bool {
		began, runs := running(c.pid)
		return runs && began == c.began
	}
	signal := func(s syscall.Signal) {
		if runs() && syscall.Kill(-c.pid, s) != nil {
			_ = syscall.Kill(c.pid, s) // it leads no group; an error: it has ended
		}
	}
	signal(syscall.SIGTERM)
	deaf := time.AfterFunc(Patience/4, func() { signal(syscall.SIGKILL) })
	defer deaf.Stop()
	testenv.Eventually(p.t, fmt.Sprintf("process %d, which %s started, has ended", c.pid, p.name), func() bool { return !runs() })
}

// cleanup ends what still runs, what the process started and left behind included, and looks at what it said.
func (p *Process) cleanup() {
	left := append(p.children(), p.left...)
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // an error: the group is empty
	<-p.gone
	for _, c := range left {
		p.end(c)
	}
	for _, said := range []string{p.Stderr(), p.Stdout()} {
		for _, bad := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
			if i := strings.Index(said, bad); i >= 0 && (p.dies == "" || !strings.HasPrefix(said[i:], p.dies)) {
				p.t.Errorf("%s said:\n%s", p.name, said[i:min(len(said), i+6000)])
			}
		}
	}
	if keep := os.Getenv("TAKT_TEST_KEEP"); keep != "" {
		_ = os.WriteFile(filepath.Join(keep, fmt.Sprintf("%s-%d.out", strings.ReplaceAll(p.t.Name(), "/", "-"), p.PID())), []byte(p.name+"\n"+p.Stdout()+p.Stderr()), 0o600)
	}
	if p.t.Failed() {
		p.t.Logf("%s: process %d, %v\n%s", p.name, p.PID(), p.cmd.ProcessState, p.tail())
	}
}

// tail is the end of what the process said.
func (p *Process) tail() string {
	var b strings.Builder
	for _, part := range []struct{ name, text string }{{"out", p.Stdout()}, {"err", p.Stderr()}} {
		lines := strings.Split(strings.TrimRight(part.text, "\n"), "\n")
		for _, line := range lines[max(0, len(lines)-30):] {
			if line != "" {
				fmt.Fprintf(&b, "    %s| %.400s\n", part.name, line)
			}
		}
	}
	return b.String()
}

// Result is what a process that has ended left.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs takt with args to its end.
func Run(t testing.TB, args ...string) Result {
	t.Helper()
	return RunCommand(t, Command{Args: args})
}

// RunCommand runs a process to its end.
func RunCommand(t testing.TB, c Command) Result {
	t.Helper()
	p := StartCommand(t, c)
	code := p.Exit()
	return Result{Code: code, Stdout: p.Stdout(), Stderr: p.Stderr()}
}
