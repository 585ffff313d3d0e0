package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// ZooKeeperServer is a server of one test, or one that the tests of a package share.
type ZooKeeperServer struct {
	process          // a shared one is left alone
	Addr    string   // host:port
	Client  *zk.Conn // for a look at what is stored; closed with the server

	mu    sync.Mutex
	paths []string
}

// longSession is for clients that are not to lose theirs on a busy machine.
const longSession = 30 * time.Second

// ZooKeeper starts a server for this test, which may kill it, restart it and end sessions on it. That takes a second or two. What is stored and the
// sessions are kept over Kill and Restart.
func ZooKeeper(t testing.TB) *ZooKeeperServer {
	t.Helper()
	var says io.Writer
	if Logs() {
		says = &testLog{t: t, name: "zookeeper"}
	}
	z, err := startZooKeeper(Within(t), says)
	Must(t, err)
	t.Cleanup(func() {
		if err := z.end(); err != nil {
			t.Error(err)
		}
	})
	return z
}

func startZooKeeper(ctx context.Context, says io.Writer) (*ZooKeeperServer, error) {
	s, err := runZooKeeper(ctx, "", says)
	if err != nil {
		return nil, err
	}
	z := &ZooKeeperServer{process: process{s}, Addr: strings.TrimPrefix(s.URL(), "zookeeper://")}
	if z.Client, err = dialZooKeeper(ctx, z.Addr, longSession); err != nil {
		_ = s.Stop()
		return nil, err
	}
	return z, nil
}

func (z *ZooKeeperServer) end() error {
	z.Client.Close()
	return errors.Join(z.Server.Kill(), z.Server.Stop())
}

// Connect opens another session, which ends with the test. After a lost connection this client waits for a second before it dials again.
func (z *ZooKeeperServer) Connect(t testing.TB, timeout time.Duration) *zk.Conn {
	t.Helper()
	conn, err := dialZooKeeper(Within(t), z.Addr, timeout)
	Must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// dialZooKeeper returns when the session is there.
func dialZooKeeper(ctx context.Context, addr string, timeout time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("testenv: no session on %s: %w", addr, ctx.Err())
		}
	}
}

// Path makes a node below which nobody else writes, and returns its path, such as /t1. When a test of a shared server
// ends, a node beside these fails it.
func (z *ZooKeeperServer) Path(t testing.TB) string {
	t.Helper()
	z.mu.Lock()
	path := fmt.Sprintf("/t%d", len(z.paths)+1)
	z.paths = append(z.paths, path)
	z.mu.Unlock()
	if _, err := z.Client.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Restart starts the server again after Kill. The sessions are still there and have all their time again.
func (z *ZooKeeperServer) Restart(t testing.TB) {
	t.Helper()
	Must(t, z.Server.Restart(Within(t)))
}
