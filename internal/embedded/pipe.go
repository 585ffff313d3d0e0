package embedded

import (
	"net"

	"github.com/alicebob/miniredis/v2"
)

// Pipe is a Redis look-alike without a port, for a bubble of testing/synctest: connections are pipes in memory, and its clock and its expiry are those of the bubble.
// Dial is fit for redis.Options.Dial. Stop ends it and its connections; it forgets everything.
func Pipe() (dial func() (net.Conn, error), stop func()) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return m.Dial, m.Close
}
