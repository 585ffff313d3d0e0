package embedded

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// RedisOptions are those of StartRedis. The zero value is a server in memory on a free port.
type RedisOptions struct {
	Dir      string    // data directory; "" = a temporary one, removed by Stop
	Persist  bool      // append-only file, flushed to disk every second: a kill may lose what was written during a flush; Config "appendfsync always" loses nothing
	Socket   bool      // a unix socket in Dir instead of a port of 127.0.0.1
	Password string    // of the default user; "" = none
	Config   []string  // more configuration lines, winning over ours
	Stdout   io.Writer // what the server says; nil = nowhere
}

// SocketPathError is the path of a socket that the system or a URL cannot take: choose another directory, or a port with a password.
type SocketPathError struct{ Path string }

func (e *SocketPathError) Error() string {
	return fmt.Sprintf("the path %s does not do for a socket: at most %d bytes, and none of ? @ or white space: choose another directory", e.Path, maxSocketPath)
}

const maxSocketPath = 107 // bytes that fit into sockaddr_un with the closing zero

// StartRedis runs redis-server, or else valkey-server, as a child and waits until it answers or ctx ends. A missing
// program is a *NotFoundError, a data directory in use a *DirBusyError.
func StartRedis(ctx context.Context, o RedisOptions) (*Server, error) {
	path, kind, err := Find("redis-server", "redis-server", "valkey-server")
	if err != nil {
		return nil, err
	}
	return Start(ctx, Program{
		Kind: kind, Path: path, Dir: o.Dir, Ready: "eady to accept connections", Stdout: o.Stdout,
		Configure: o.configure, Args: func(configFile string) []string { return []string{configFile} },
	})
}

func (o RedisOptions) configure(dir string, port int) (config []string, url string, err error) {
	config, url = []string{
		"bind 127.0.0.1", "dir " + strconv.Quote(dir), "daemonize no", `logfile ""`, "loglevel notice",
		"appendonly no", "appendfsync everysec", `save ""`, "maxmemory-policy noeviction",
	}, fmt.Sprintf("redis://127.0.0.1:%d", port)
	if o.Persist {
		config = append(config, "appendonly yes")
	}
	if o.Password != "" {
		config = append(config, "requirepass "+strconv.Quote(o.Password))
		url = fmt.Sprintf("redis://:%s@127.0.0.1:%d", o.Password, port)
	}
	if o.Socket {
		port = 0
		path := filepath.Join(dir, "redis.sock")
		if len(path) > maxSocketPath || strings.ContainsAny(path, "?@ \t\r\n") {
			return nil, "", &SocketPathError{Path: path}
		}
		config = append(config, "unixsocket "+strconv.Quote(path), "unixsocketperm 700")
		url = "unix://" + path
	}
	return append(append(config, "port "+strconv.Itoa(port)), o.Config...), url, nil
}
