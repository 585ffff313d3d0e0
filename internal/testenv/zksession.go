package testenv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// ExpireSession ends somebody's session from outside and returns when its ephemeral nodes are gone. The owner loses its
// connection at once, and learns that the session has expired when it connects again.
func (z *ZooKeeperServer) ExpireSession(t testing.TB, id int64) {
	t.Helper()
	c, err := net.DialTimeout("tcp", z.Addr, Patience)
	Must(t, err)
	defer c.Close()
	err = errors.Join(c.SetDeadline(time.Now().Add(Patience)), openSession(c, id))
	if err == nil {
		err = closeSession(c)
	}
	if err != nil {
		t.Fatalf("testenv: %s: session %#x: %v", z.Addr, id, err)
	}
}

// openSession takes over a session. The id in the reply is 0 if there is none.
func openSession(c net.Conn, id int64) error {
	password := sessionPassword(id)
	request := binary.BigEndian.AppendUint32(nil, 0)                                             // protocol
	request = binary.BigEndian.AppendUint64(request, 0)                                          // last transaction seen
	request = binary.BigEndian.AppendUint32(request, uint32(longSession.Milliseconds()))         // timeout
	request = binary.BigEndian.AppendUint64(request, uint64(id))                                 // session
	request = append(binary.BigEndian.AppendUint32(request, uint32(len(password))), password...) // its password
	request = append(request, 0)                                                                 // writes, too
	reply, err := exchange(c, request)
	if err != nil {
		return err
	}
	const head = 4 + 4 + 8 + 4 // protocol, timeout, session, length of the password
	if len(reply) < head {
		return fmt.Errorf("reply of %d bytes: %x", len(reply), reply)
	}
	if int64(binary.BigEndian.Uint64(reply[8:])) != id {
		return errors.New("there is no such session")
	}
	return nil
}

func closeSession(c net.Conn) error {
	const opClose = -11
	request := binary.BigEndian.AppendUint32(nil, 1) // number of the request
	reply, err := exchange(c, binary.BigEndian.AppendUint32(request, uint32(opClose&0xffffffff)))
	if err != nil {
		return err
	}
	const head = 4 + 8 + 4 // number, transaction, error
	if len(reply) != head || binary.BigEndian.Uint32(reply[12:]) != 0 {
		return fmt.Errorf("not closed: %x", reply)
	}
	return nil
}

func exchange(c net.Conn, request []byte) (reply []byte, err error) {
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	reply = make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(c, reply)
	return reply, err
}

// sessionPassword is what the server gives out for id: it does not store passwords but takes them from
// java.util.Random with a secret that is in its source. Client libraries keep theirs to themselves.
func sessionPassword(id int64) []byte {
	const secret, multiplier, mask = 0xB3415C00, 0x5DEECE66D, 1<<48 - 1
	seed := (uint64(id) ^ secret ^ multiplier) & mask
	var password []byte
	for len(password) < 16 {
		seed = (seed*multiplier + 0xB) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}
