package embedded

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports below the range from which the system takes those of outgoing connections: a port of ours
// that is free for a moment (after Kill) is then not taken by somebody's dialling.
const firstPort, lastPort = 20000, 32000

// freePort finds a port of 127.0.0.1 on which nobody listens. Somebody may take it before our child does; the child then ends and another is tried.
func freePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, fmt.Errorf("no free port found between %d and %d", firstPort, lastPort)
}

// mqttURL is how a program of this machine reaches a broker that listens on host; "" and the addresses that mean all of them are 127.0.0.1.
func mqttURL(host string, port int) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "mqtt://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// onFreePort calls start with free ports until one works; a port given by the caller is tried once.
func onFreePort(port int, start func(port int) (*Server, error)) (*Server, error) {
	if port != 0 {
		return start(port)
	}
	var err error
	for range 5 {
		if port, err = freePort(); err != nil {
			return nil, err
		}
		var s *Server
		if s, err = start(port); err == nil || !inUse(err) {
			return s, err
		}
	}
	return nil, err
}
