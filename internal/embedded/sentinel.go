package embedded

import (
	"context"
	"fmt"
	"strconv"
)

// StartSentinel runs a sentinel with the configuration file at path, which the program rewrites, on a free port of 127.0.0.1;
// for tests of failing over. password is the one that the file asks for, "" = none. A missing program is a *NotFoundError.
func StartSentinel(ctx context.Context, path, password string) (*Server, error) {
	program, _, ok := find("redis-server", "valkey-server")
	if !ok {
		return nil, &NotFoundError{Programs: "redis-server or valkey-server", Package: "redis-server"}
	}
	return onFreePort(0, func(port int) (*Server, error) {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		c := &child{
			path: program, args: []string{path, "--sentinel", "--bind", "127.0.0.1", "--port", strconv.Itoa(port)}, ready: "entinel ID is",
			verify: func(ctx context.Context, pid int) error { return verifyRedis(ctx, "tcp", addr, password, pid) },
		}
		return run(ctx, "sentinel", true, "redis://"+addr, c, nil) // the URL has no password: who knows the file knows it
	})
}
