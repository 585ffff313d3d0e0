package embedded

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// reserve keeps a port from every other server of ours in this network namespace, whatever its process; ok is false if one has it. An abstract socket leaves no file behind, and is
// gone with its process.
func reserve(port int) (release func(), ok bool) {
	l, err := net.Listen("unix", fmt.Sprintf("@takt-port-%d", port))
	if err != nil {
		return func() {}, !errors.Is(err, syscall.EADDRINUSE) // without such sockets nothing is reserved
	}
	return func() { l.Close() }, true
}
