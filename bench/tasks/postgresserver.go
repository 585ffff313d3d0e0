package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresServer looks at a PostgreSQL from outside.
type postgresServer struct {
	url     string
	version string // PostgreSQL 15.9
	pid     int    // of the postmaster if it is ours, else 0: its CPU is not known then
}

func connectPostgres(ctx context.Context, url string, pid int) (*postgresServer, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	p := &postgresServer{url: url, pid: pid}
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&p.version); err != nil {
		return nil, err
	}
	number, _, _ := strings.Cut(p.version, " ")
	p.version = "PostgreSQL " + number
	return p, nil
}

// Usage is that of the postmaster and all its processes, those that have ended included.
func (p *postgresServer) Usage(context.Context) (Usage, error) {
	if p.pid == 0 {
		return Usage{CPU: -1, Commands: -1}, nil
	}
	cpu, err := familyCPU(p.pid)
	return Usage{CPU: cpu, Commands: -1}, err
}

// cluster is a PostgreSQL of our own in a temporary directory.
type cluster struct {
	url  string
	pid  int
	dir  string
	gone chan struct{} // closed when the postmaster has ended
}

// clusterSettings are what a user with some care would set; everything else, synchronous_commit = on above all, is PostgreSQL's own.
var clusterSettings = []string{"shared_buffers=256MB", "synchronous_commit=on", "max_wal_size=4GB", "checkpoint_timeout=15min", "max_connections=200"}

const (
	postgresPackage = "postgresql" // of Debian
	stopGrace       = 20 * time.Second
)

// startCluster makes a cluster and starts it on a free port of 127.0.0.1.
func startCluster(ctx context.Context, log io.Writer) (*cluster, error) {
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	bin, err := postgresPrograms(installed)
	if err != nil {
		return nil, err
	}
	owner, err := clusterOwner()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "takt-bench-pg-")
	if err != nil {
		return nil, err
	}
	c, err := runCluster(ctx, bin, dir, owner, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("PostgreSQL: %w", err), os.RemoveAll(dir))
	}
	return c, nil
}

func runCluster(ctx context.Context, bin, dir string, owner *syscall.Credential, log io.Writer) (*cluster, error) {
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir = dir
	initdb.SysProcAttr = childAttr(owner)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	for tries := 0; ; tries++ {
		c, err := runPostmaster(ctx, bin, dir, data, owner, log)
		if err == nil || tries == 4 || ctx.Err() != nil {
			return c, err
		}
	}
}

func runPostmaster(ctx context.Context, bin, dir, data string, owner *syscall.Credential, log io.Writer) (*cluster, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + dir}
	for _, s := range clusterSettings {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir, cmd.SysProcAttr = dir, childAttr(owner)
	c := &cluster{url: fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port), dir: dir, gone: make(chan struct{})}
	tail := &lastLines{}
	if err := c.start(cmd, io.MultiWriter(tail, severe{log})); err != nil {
		return nil, err
	}
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, tail), c.end())
	}
	return c, nil
}

// start runs the postmaster. The signal that it gets when we die is tied to the thread that started it, so the thread stays with it.
func (c *cluster) start(cmd *exec.Cmd, out io.Writer) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(c.gone)
		cmd.Stdout, cmd.Stderr = out, out
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended does not matter
		}
	}()
	return <-started
}

// ready waits until the server takes connections.
func (c *cluster) ready(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, c.url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.gone:
			return errors.New("postgres ended at once")
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *cluster) stop() error { return errors.Join(c.end(), os.RemoveAll(c.dir)) }

// end asks for a fast shutdown, which drops connections, and does not wait for ever.
func (c *cluster) end() error {
	select {
	case <-c.gone:
		return nil
	default:
	}
	if err := syscall.Kill(c.pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case <-c.gone:
	case <-time.After(stopGrace):
		_ = syscall.Kill(c.pid, syscall.SIGQUIT) // an immediate one
		<-c.gone
	}
	return nil
}

// postgresPrograms finds the folder of initdb and postgres: that of PATH, or else the newest of those where Debian installs them.
func postgresPrograms(installed []string) (string, error) {
	var found []string
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, filepath.Dir(path))
	}
	slices.SortFunc(installed, func(a, b string) int { return majorOf(b) - majorOf(a) })
	for _, dir := range append(found, installed...) {
		_, err1 := exec.LookPath(filepath.Join(dir, "initdb"))
		_, err2 := exec.LookPath(filepath.Join(dir, "postgres"))
		if err1 == nil && err2 == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no initdb and postgres found on PATH or in /usr/lib/postgresql: install them with apt-get install %s, name a server with --postgres URL, or leave river out with --only takt,asynq", postgresPackage)
}

func majorOf(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// clusterOwner is who runs PostgreSQL, which refuses root; nil = we ourselves.
func clusterOwner() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// lastLines keeps the end of what a server says, for errors.
type lastLines struct{ text []byte }

func (l *lastLines) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-1000):]
	return len(p), nil
}

func (l *lastLines) String() string { return strings.Join(strings.Fields(string(l.text)), " ") }

// severe passes on what a server says of trouble.
type severe struct{ out io.Writer }

func (s severe) Write(p []byte) (int, error) {
	lines := bufio.NewScanner(strings.NewReader(string(p)))
	for lines.Scan() {
		if strings.Contains(lines.Text(), " PANIC:") {
			fmt.Fprintln(s.out, "postgres:", lines.Text())
		}
	}
	return len(p), nil
}
