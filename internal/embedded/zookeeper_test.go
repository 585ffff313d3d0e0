//go:build interop

package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func zooKeeperWord(t *testing.T, s *Server, word string) (string, error) {
	t.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.URL(), "zookeeper://"), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}

// openSession makes a session, or finds the one with this id and password again.
func openSession(t *testing.T, s *Server, id int64, password []byte) (gotID int64, gotPassword []byte) {
	t.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.URL(), "zookeeper://"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	const readSoFar, timeout = 0, 4000
	frame := binary.BigEndian.AppendUint32(nil, 0)
	frame = binary.BigEndian.AppendUint64(frame, readSoFar)
	frame = binary.BigEndian.AppendUint32(frame, timeout)
	frame = binary.BigEndian.AppendUint64(frame, uint64(id))
	frame = append(binary.BigEndian.AppendUint32(frame, 16), password...)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 4+4+4+8+4+16)
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatal(err)
	}
	return int64(binary.BigEndian.Uint64(reply[12:])), reply[24:]
}

func TestZooKeeperKeepsItsData(t *testing.T) {
	s, err := StartZooKeeper(t.Context(), ZooKeeperOptions{Dir: filepath.Join(t.TempDir(), "a dir", `with "signs\`), TickTime: 300 * time.Millisecond})
	stopAtEnd(t, s, err)
	if s.Kind != "zookeeper" || !s.Durable || s.PID() == 0 {
		t.Errorf("%s %v %d", s.Kind, s.Durable, s.PID())
	}
	if text, err := zooKeeperWord(t, s, "conf"); err != nil || !strings.Contains(text, "minSessionTimeout=600\nmaxSessionTimeout=6000\n") {
		t.Errorf("conf: %q, %v", text, err)
	}
	id, password := openSession(t, s, 0, make([]byte, 16))
	if id == 0 {
		t.Fatal("no session")
	}
	if err := s.Restart(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("restart of a running server: %v", err)
	}
	url, first := s.URL(), s.PID()
	for range 2 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := zooKeeperWord(t, s, "ruok"); err == nil {
		t.Errorf("answers although killed: %q", text)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url || s.PID() == first {
		t.Errorf("%s %d after %s %d", s.URL(), s.PID(), url, first)
	}
	if again, _ := openSession(t, s, id, password); again != id {
		t.Errorf("session %x after a kill and a restart, want %x", again, id)
	}
}

func TestZooKeeperLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := StartZooKeeper(t.Context(), ZooKeeperOptions{})
	stopAtEnd(t, s, err)
	if text, err := zooKeeperWord(t, s, "ruok"); err != nil || text != "imok" {
		t.Errorf("ruok: %q, %v", text, err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestZooKeeperRefusals(t *testing.T) {
	dir := t.TempDir()
	s, err := StartZooKeeper(t.Context(), ZooKeeperOptions{Dir: dir})
	stopAtEnd(t, s, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var busy *DirBusyError
	if _, err := StartZooKeeper(ctx, ZooKeeperOptions{Dir: dir}); !errors.As(err, &busy) || busy.Dir != dir {
		t.Errorf("the same directory: %v", err)
	}
	port, err := strconv.Atoi(s.URL()[strings.LastIndexByte(s.URL(), ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := StartZooKeeper(t.Context(), ZooKeeperOptions{Port: port}); err == nil || !inUse(err) {
		t.Errorf("the same port: %v", err)
	}
	if _, err := StartZooKeeper(t.Context(), ZooKeeperOptions{Config: []string{"tickTime=soon"}}); err == nil || !strings.Contains(err.Error(), "soon") {
		t.Errorf("a bad configuration: %v", err)
	}
}

func TestZooKeeperIsMissing(t *testing.T) {
	empty := t.TempDir()
	for _, missing := range []struct{ java, jars, want string }{
		{"no-such-java", debianJars, "no no-such-java found on PATH or in /usr/sbin"},
		{"java", empty, fmt.Sprintf("no zookeeper.jar found in %s", empty)},
	} {
		_, _, err := findZooKeeper(missing.java, missing.jars)
		var e *NotFoundError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), missing.want) || !strings.HasSuffix(err.Error(), "apt-get install default-jre-headless libzookeeper-java") {
			t.Errorf("%s and %s: %v", missing.java, missing.jars, err)
		}
	}
}
