package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/testenv/long"
)

// In the role of a parent that is killed, the test program starts a server and waits.
const parentRole = "TAKT_TEST_PARENT_OF"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentRole); dir != "" {
		s, err := StartRedis(context.Background(), RedisOptions{Dir: dir, Persist: true})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.PID(), s.URL())
		select {}
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait: it shows only when something hangs. It is testenv.Patience, which imports this package.
const patience = 3 * time.Minute

func stopAtEnd(t *testing.T, s *Server, err error) *Server {
	t.Helper()
	must(t, err)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// redisDo sends one command and returns the first line of the reply, or the second if the first is a length.
func redisDo(t *testing.T, s *Server, args ...string) (string, error) {
	t.Helper()
	network, addr := "tcp", strings.TrimPrefix(s.URL(), "redis://")
	if path, ok := strings.CutPrefix(s.URL(), "unix://"); ok {
		network, addr = "unix", path
	}
	c, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	fmt.Fprintf(c, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(a), a)
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err == nil && strings.HasPrefix(line, "$") && !strings.HasPrefix(line, "$-1") {
		line, err = r.ReadString('\n')
	}
	return strings.TrimSpace(line), err
}

func wantReply(t *testing.T, s *Server, want string, args ...string) {
	t.Helper()
	if got, err := redisDo(t, s, args...); err != nil || got != want {
		t.Errorf("%q: %q, %v, want %q", args, got, err, want)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(patience)
	tick := time.Tick(2 * time.Millisecond)
	for !ok() {
		select {
		case <-end:
			t.Fatalf("never: %s", what)
		case <-tick:
		}
	}
}

func TestRedisKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a dir", `with "signs`)
	var said syncBuffer
	s, err := StartRedis(t.Context(), RedisOptions{Dir: dir, Persist: true, Stdout: &said, Config: []string{"appendfsync always"}})
	stopAtEnd(t, s, err)
	if !strings.HasSuffix(s.Kind, "-server") || s.PID() == 0 {
		t.Errorf("%s %d", s.Kind, s.PID())
	}
	wantReply(t, s, "+OK", "SET", "k", "v")
	if err := s.Restart(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("restart of a running server: %v", err)
	}
	url, first := s.URL(), s.PID()
	must(t, s.Kill())
	if err := s.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := redisDo(t, s, "PING"); err == nil {
		t.Error("answers although killed")
	}
	must(t, s.Restart(t.Context()))
	if s.URL() != url || s.PID() == first {
		t.Errorf("%s %d after %s %d", s.URL(), s.PID(), url, first)
	}
	wantReply(t, s, "v", "GET", "k")
	if !strings.Contains(said.String(), "eady to accept connections") {
		t.Error("its output is not passed on")
	}
	// It ends by itself, which shows, and it can be started again.
	done := s.Done()
	if _, err := redisDo(t, s, "SHUTDOWN", "NOSAVE"); err == nil {
		t.Error("an answer to SHUTDOWN")
	}
	<-done
	must(t, s.Restart(t.Context()))
	wantReply(t, s, "v", "GET", "k")
}

func TestRedisInMemoryLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := StartRedis(t.Context(), RedisOptions{})
	stopAtEnd(t, s, err)
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRedisPassword(t *testing.T) {
	s, err := StartRedis(t.Context(), RedisOptions{Password: "pass word"})
	stopAtEnd(t, s, err)
	if !strings.Contains(s.URL(), "pass") {
		t.Error(s.URL())
	}
}

func TestRedisSocket(t *testing.T) {
	s, err := StartRedis(t.Context(), RedisOptions{Socket: true})
	stopAtEnd(t, s, err)
	path := strings.TrimPrefix(s.URL(), "unix://")
	if i, err := os.Stat(path); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", i, err)
	}
	wantReply(t, s, "+PONG", "PING")
	must(t, s.Kill())
	must(t, s.Restart(t.Context()))
	wantReply(t, s, "+PONG", "PING")

	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if _, err := StartRedis(t.Context(), RedisOptions{Socket: true, Dir: long}); err == nil || !strings.Contains(err.Error(), "does not do for a socket") {
		t.Errorf("a path of more than 107 bytes: %v", err)
	}
}

func TestRedisRefusals(t *testing.T) {
	dir := t.TempDir()
	s, err := StartRedis(t.Context(), RedisOptions{Dir: dir})
	stopAtEnd(t, s, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var busy *DirBusyError
	if _, err := StartRedis(ctx, RedisOptions{Dir: dir}); !errors.As(err, &busy) || busy.Dir != dir {
		t.Errorf("the same directory: %v", err)
	}
	if _, err := StartRedis(t.Context(), RedisOptions{Config: []string{"no-such-setting 1"}}); err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("a bad configuration: %v", err)
	}
	if _, err := StartRedis(t.Context(), RedisOptions{Dir: "/dev/null/x"}); err == nil {
		t.Error("an impossible directory")
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if _, err := StartRedis(done, RedisOptions{}); err == nil {
		t.Error("started although told to stop")
	}
}

func TestMissingPrograms(t *testing.T) {
	_, _, err := Find("y", "no-such-program", "nor-this")
	var missing *NotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no no-such-program or nor-this found") || !strings.Contains(err.Error(), "apt-get install y") {
		t.Error(err)
	}
}

// When the parent is killed, its child ends by itself, and the data can be used again.
func TestChildDiesWithItsParent(t *testing.T) {
	long.Test(t, "kills a process")
	dir := t.TempDir()
	self, err := os.Executable()
	must(t, err)
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentRole+"="+dir)
	out, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	pidText, url, ok := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(pidText)
	if !ok || err != nil {
		t.Fatal(line)
	}
	wantReply(t, &Server{url: url}, "+OK", "SET", "k", "v")
	must(t, parent.Process.Kill())
	_ = parent.Wait()
	eventually(t, "the child ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	s, err := StartRedis(t.Context(), RedisOptions{Dir: dir, Persist: true})
	stopAtEnd(t, s, err)
	wantReply(t, s, "v", "GET", "k")
}

func TestMiniredis(t *testing.T) {
	s, err := StartMiniredis(t.Context(), MiniredisOptions{})
	stopAtEnd(t, s, err)
	if s.PID() != 0 || s.Kind != "miniredis" {
		t.Errorf("%+v", s)
	}
	begun := time.Now()
	wantReply(t, s, "+OK", "SET", "k", "v", "PX", "100")
	wantReply(t, s, "+OK", "SET", "stays", "v")
	eventually(t, "expiry", func() bool {
		r, err := redisDo(t, s, "GET", "k")
		return err == nil && r == "$-1"
	})
	if took := time.Since(begun); took < 80*time.Millisecond {
		t.Errorf("expired after %v", took)
	}
	wantReply(t, s, "v", "GET", "stays")
	done := s.Done()
	must(t, s.Kill())
	<-done
	must(t, s.Restart(t.Context()))
	wantReply(t, s, "$-1", "GET", "stays")
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// must ends the test at an error. The kit of the tests imports this package.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
