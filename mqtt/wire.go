package mqtt

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
)

// wire is a network connection as the library sees it: buffered, and without the packets that
// come in by the thousand, which go to arrived and acknowledged.
//
// The library reads byte by byte and writes each packet in pieces; here a packet is one write, and
// those that are written at about the same time share one. It is a sync.Locker because the library
// locks around a packet when it can.
type wire struct {
	net.Conn
	arrived      func(arrival) // both are called by the library's reader in the order of arrival
	acknowledged func(id uint16)

	in   *bufio.Reader
	left int    // bytes the library has still to read of its packet
	body []byte // room for a PUBLISH of up to maxBody bytes, made for the first

	made  time.Time
	heard atomic.Int64 // when the last packet came, in nanoseconds since made
	old   atomic.Bool  // CONNACK was none of MQTT 5

	out     *bufio.Writer
	mu      sync.Mutex
	sending atomic.Bool // what is written goes out soon
}

// maxBody is the largest PUBLISH, in bytes, whose room is kept for the next.
const maxBody = 16 << 10

func newWire(c net.Conn, arrived func(arrival), acknowledged func(id uint16)) *wire {
	return &wire{
		Conn: c, arrived: arrived, acknowledged: acknowledged, made: time.Now(),
		in: bufio.NewReaderSize(c, 16<<10), out: bufio.NewWriterSize(c, 16<<10),
	}
}

// Read gives the library the packets that are for it.
func (w *wire) Read(p []byte) (int, error) {
	for w.left == 0 {
		if err := w.nextPacket(); err != nil {
			return 0, err
		}
	}
	n, err := w.in.Read(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}

// nextPacket handles a packet itself, or sets left for the library to read what it is.
func (w *wire) nextPacket() error {
	header, length, err := w.fixedHeader()
	if err != nil {
		return err
	}
	w.heard.Store(int64(time.Since(w.made)))
	switch {
	case header[0] == packets.CONNACK<<4 && length == 2: // as MQTT 3.1.1 has it, 3.2.1: flags and code; MQTT 5 adds the length of the properties
		w.old.Store(true)
		return fmt.Errorf("CONNACK of an earlier MQTT: %w", ErrNoMQTT5)
	case length > maxPacket: // we told the broker in CONNECT
		return fmt.Errorf("mqtt: the broker sent a packet of %d bytes", length)
	case header[0] == packets.PUBACK<<4 && length >= 2 && length <= 4:
		return w.puback(length)
	case header[0]>>4 != packets.PUBLISH:
		w.left = len(header) + length
		return nil
	}
	flags := header[0] & 0xf
	_, _ = w.in.Discard(len(header))
	long := length > maxBody
	body := w.body
	if long {
		body = make([]byte, length)
	} else if cap(body) < length {
		w.body = make([]byte, maxBody)
		body = w.body
	}
	body = body[:length]
	if _, err := io.ReadFull(w.in, body); err != nil {
		return err
	}
	a, err := parsePublish(flags, body, long)
	if err != nil {
		return err
	}
	a.at = time.Now()
	w.arrived(a)
	return nil
}

// silence is for how long no packet has come.
func (w *wire) silence() time.Duration { return time.Since(w.made) - time.Duration(w.heard.Load()) }

// puback handles a PUBACK that says no more than success: an identifier, perhaps a reason below
// 0x80, and perhaps that there are no properties. All others are the library's.
func (w *wire) puback(length int) error {
	p, err := w.in.Peek(2 + length)
	if err != nil {
		return err
	}
	if length > 2 && p[4] >= 0x80 || length > 3 && p[5] != 0 {
		w.left = len(p)
		return nil
	}
	w.acknowledged(binary.BigEndian.Uint16(p[2:]))
	_, err = w.in.Discard(len(p))
	return err
}

// fixedHeader looks at the next packet's type, flags and remaining length without taking them.
func (w *wire) fixedHeader() (header []byte, length int, err error) {
	for n := 2; n <= 5; n++ {
		if header, err = w.in.Peek(n); err != nil {
			if err == io.EOF && len(header) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, 0, err
		}
		if header[n-1] < 0x80 {
			r := reader[[]byte]{rest: header[1:]}
			return header, r.varInt(), nil
		}
	}
	return nil, 0, errMalformed
}

// Write must be called between Lock and Unlock, or UnlockSoon.
func (w *wire) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *wire) Lock() { w.mu.Lock() }

// Unlock sends what was written.
func (w *wire) Unlock() {
	if err := w.out.Flush(); err != nil {
		_ = w.Conn.Close() // the reader notices; bufio keeps the error for later writers
	}
	w.mu.Unlock()
}

// UnlockSoon has what was written sent after all that can run now has run: on a busy machine many packets share one call of the system.
func (w *wire) UnlockSoon() {
	w.mu.Unlock()
	if w.sending.Swap(true) {
		return
	}
	go func() {
		runtime.Gosched()
		w.Lock()
		w.sending.Store(false)
		w.Unlock()
	}()
}
