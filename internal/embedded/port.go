package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"syscall"
)

// Ports below the range from which the system takes those of outgoing connections: a port of ours
// that is free for a moment (after Kill) is then not taken by somebody's dialling.
const firstPort, lastPort = 20000, 32000

// freePort finds a port of 127.0.0.1 without a listener, and reserves it until release. Another program may take it before our child does; the child then ends and
// another is tried.
func freePort() (port int, release func(), err error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		release, ok := reserve(port)
		if !ok {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			release()
			continue
		}
		l.Close()
		return port, release, nil
	}
	return 0, nil, fmt.Errorf("no free port found between %d and %d", firstPort, lastPort)
}

// reserve keeps a port from every other server of ours in this network namespace, whatever its process; ok is false if one has it. An abstract socket leaves no file behind, and is
// gone with its process; only Linux has them, and elsewhere nothing is reserved.
func reserve(port int) (release func(), ok bool) {
	if runtime.GOOS != "linux" {
		return func() {}, true
	}
	l, err := net.Listen("unix", fmt.Sprintf("@takt-port-%d", port))
	if err != nil {
		return func() {}, !errors.Is(err, syscall.EADDRINUSE) // without such sockets nothing is reserved
	}
	return func() { l.Close() }, true
}

// mqttURL is how a program of this machine reaches a broker that listens on host; "" and the addresses that mean all of them are 127.0.0.1.
func mqttURL(host string, port int) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "mqtt://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// onFreePort calls start with free ports until one works; a port given by the caller is tried once. A port that was found stays reserved until Stop, so that no other server of
// ours has it when this one is killed and started again.
func onFreePort(kind string, port int, start func(port int) (*Server, error)) (s *Server, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("embedded: %s: %w", kind, err)
		}
	}()
	if port != 0 {
		return start(port)
	}
	for range 5 {
		port, release, found := freePort()
		if found != nil {
			return nil, found
		}
		if s, err = start(port); err == nil {
			free := s.free
			s.free = func() { free(); release() }
			return s, nil
		}
		release()
		if !inUse(err) {
			return nil, err
		}
	}
	return nil, err
}
