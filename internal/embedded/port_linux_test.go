package embedded

import (
	"strconv"
	"testing"
)

// The port of a server that was killed is no other server's until Stop: clients that try again would reach that one, and the server could not start again.
func TestPortIsKeptWhileDown(t *testing.T) {
	s, err := StartRedis(t.Context(), RedisOptions{})
	stopAtEnd(t, s, err)
	port, err := strconv.Atoi(s.URL()[len("redis://127.0.0.1:"):])
	must(t, err)
	free := func() bool {
		release, ok := reserve(port)
		release()
		return ok
	}
	must(t, s.Kill())
	if free() {
		t.Error("the port of a killed server is given to others")
	}
	must(t, s.Restart(t.Context()))
	if free() {
		t.Error("the port of a server is given to others after it was started again")
	}
	must(t, s.Stop())
	if !free() {
		t.Error("the port is not given back")
	}
}
