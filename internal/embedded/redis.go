package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// RedisOptions are those of StartRedis. The zero value is a server in memory on a free port.
type RedisOptions struct {
	Dir      string    // data directory; "" = a temporary one, removed by Stop
	Persist  bool      // append-only file, flushed to disk every second: a kill may lose what was written during a flush; Config "appendfsync always" loses nothing
	Port     int       // on 127.0.0.1; 0 = a free one
	Socket   bool      // a unix socket in Dir instead of a port; Port is ignored
	Password string    // of the default user; "" = none
	Config   []string  // more configuration lines, winning over ours
	Stdout   io.Writer // what the server says; nil = nowhere
}

// SocketPathError is the path of a socket that the system or a URL cannot take: choose another directory, or a port with a password.
type SocketPathError struct{ Path string }

func (e *SocketPathError) Error() string {
	return fmt.Sprintf("embedded: the path %s does not do for a socket: at most %d bytes, and none of ? @ or white space: choose another directory", e.Path, maxSocketPath)
}

const maxSocketPath = 107 // bytes that fit into sockaddr_un with the closing zero

// StartRedis runs redis-server, or else valkey-server, as a child and waits until it answers or ctx ends. A missing
// program is a *NotFoundError, a data directory in use a *DirBusyError.
func StartRedis(ctx context.Context, o RedisOptions) (*Server, error) {
	path, kind, ok := find("redis-server", "valkey-server")
	if !ok {
		return nil, &NotFoundError{Programs: "redis-server or valkey-server", Package: "redis-server"}
	}
	if o.Socket {
		return startRedis(ctx, o, path, kind, 0)
	}
	return onFreePort(o.Port, func(port int) (*Server, error) { return startRedis(ctx, o, path, kind, port) })
}

func startRedis(ctx context.Context, o RedisOptions, path, kind string, port int) (*Server, error) {
	dir, lock, free, err := dataDir(ctx, o.Dir, "redis")
	if err != nil {
		return nil, fmt.Errorf("embedded: %s: %w", kind, err)
	}
	network, addr, url := "tcp", fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("redis://127.0.0.1:%d", port)
	if o.Password != "" {
		url = fmt.Sprintf("redis://:%s@127.0.0.1:%d", o.Password, port)
	}
	if o.Socket {
		network, addr = "unix", filepath.Join(dir, "redis.sock")
		if len(addr) > maxSocketPath || strings.ContainsAny(addr, "?@ \t\r\n") {
			free()
			return nil, &SocketPathError{Path: addr}
		}
		url = "unix://" + addr
	}
	config := redisConfig(o, dir, addr, port)
	c := &child{
		path: path, args: []string{"-"}, out: o.Stdout, lock: lock,
		stdin: func() io.Reader { return strings.NewReader(config) },
		ready: "eady to accept connections",
		verify: func(ctx context.Context, pid int) error {
			return verifyRedis(ctx, network, addr, o.Password, pid)
		},
	}
	return run(ctx, kind, o.Persist, url, c, free)
}

func redisConfig(o RedisOptions, dir, addr string, port int) string {
	lines := []string{
		"port " + strconv.Itoa(port), "bind 127.0.0.1", "dir " + strconv.Quote(dir), "daemonize no", `logfile ""`, "loglevel notice",
		"appendonly no", "appendfsync everysec", `save ""`, "maxmemory-policy noeviction",
	}
	if o.Persist {
		lines = append(lines, "appendonly yes")
	}
	if o.Socket {
		lines = append(lines, "unixsocket "+strconv.Quote(addr), "unixsocketperm 700")
	}
	if o.Password != "" {
		lines = append(lines, "requirepass "+strconv.Quote(o.Password))
	}
	return strings.Join(append(lines, o.Config...), "\n") + "\n"
}

// verifyRedis makes sure that it is our child that answers at addr and not a stranger.
func verifyRedis(ctx context.Context, network, addr, password string, pid int) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return err
		}
	}
	if password != "" {
		fmt.Fprintf(conn, "*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n", len(password), password)
	}
	if _, err := io.WriteString(conn, "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n*1\r\n$4\r\nQUIT\r\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			if got, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || got != pid {
				return fmt.Errorf("the server at %s is process %s, not our child %d", addr, text, pid)
			}
			return nil
		}
	}
	return errors.Join(fmt.Errorf("the server at %s did not say its process id", addr), lines.Err())
}
