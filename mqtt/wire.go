package mqtt

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
)

// wire buffers a network connection. The packet library reads byte by byte and writes each
// packet in three pieces; here a packet is one write, and packets of callers who wait for each
// other share one.
//
// It is a sync.Locker because the library locks around a packet when it can.
type wire struct {
	net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	mu      sync.Mutex
	waiting atomic.Int32 // callers in Lock
}

func newWire(c net.Conn) *wire {
	return &wire{Conn: c, in: bufio.NewReaderSize(c, 16<<10), out: bufio.NewWriterSize(c, 16<<10)}
}

func (w *wire) Read(p []byte) (int, error) { return w.in.Read(p) }

// Write must be called between Lock and Unlock.
func (w *wire) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *wire) Lock() {
	w.waiting.Add(1)
	w.mu.Lock()
	w.waiting.Add(-1)
}

// Unlock sends what was written, unless another caller is waiting: then his Unlock does.
func (w *wire) Unlock() {
	if w.waiting.Load() == 0 {
		if err := w.out.Flush(); err != nil {
			_ = w.Conn.Close() // the reader notices; bufio keeps the error for later writers
		}
	}
	w.mu.Unlock()
}
