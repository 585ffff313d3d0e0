package fault_test

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// Fault 31: a broker without retained messages, so that no MES would ever find a result. The log, the readiness and takt doctor name it.
func TestFault31UnfitBroker(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{Mosquitto: embedded.MosquittoOptions{Config: []string{"retain_available false"}}, NoStation: true})
	p := w.BeginServe("a", "--http", "127.0.0.1:0")
	p.Await("the broker is unfit for Takt")
	if n := errorLines(p, "retained messages"); n != 1 {
		t.Errorf("%d lines of level ERROR name it", n)
	}
	notReady(t, p, "retained messages: not available")
	if r := w.Takt("doctor"); r.Code == 0 || !strings.Contains(r.Stdout, "retained messages") {
		t.Errorf("takt doctor: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	stillUp(t, p)
}

// Fault 31: a broker that keeps no sessions, so that what comes while an instance is away is lost. The log and the readiness name it, unless it is so on purpose.
func TestFault31BrokerKeepsNoSessions(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{NoStation: true})
	url := keepsNoSessions(t, w.Broker.URL)
	p := w.BeginServe("a", "--mqtt", url, "--http", "127.0.0.1:0")
	p.Await("the broker is unfit for Takt")
	if n := errorLines(p, "sessions: not kept"); n != 1 {
		t.Errorf("%d lines of level ERROR name it", n)
	}
	notReady(t, p, "sessions: not kept")
	stillUp(t, p)

	meant := w.Serve("b", "--mqtt", url, "--http", "127.0.0.1:0", "--session-expiry", "0")
	if code, text := readiness(t, meant); code != http.StatusOK {
		t.Errorf("/readyz with --session-expiry 0: %d\n%s", code, text)
	}
}

// Fault 31: a second installation, which is another store, on the same topics. It ends with an error; the first one does every order.
func TestFault31TwoInstallations(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Serve("a")
	prefix := w.Redis.Prefix(t)
	second := w.BeginServe("b", "--prefix", prefix)
	second.Await("give this installation another --topic-prefix")
	if code := second.Exit(); code == 0 {
		t.Error("the second installation ended with exit status 0")
	}
	if r := rig.Run(t, append(w.Args("doctor"), "--prefix", prefix)...); r.Code != 1 || !strings.Contains(r.Stdout, "are those of another store") {
		t.Errorf("takt doctor of the second: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := w.Takt("doctor"); !strings.Contains(r.Stdout, "are those of this store") {
		t.Errorf("takt doctor of the first: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	m := w.MES()
	m.Order(rig.Orders("JO", 40))
	m.UntilDone(40)
	w.Serve("c") // of the first store
}

func notReady(t *testing.T, p *rig.Process, why string) {
	t.Helper()
	if code, text := readiness(t, p); code != http.StatusServiceUnavailable || !strings.Contains(text, why) {
		t.Errorf("/readyz: %d\n%s", code, text)
	}
}

// readiness asks an instance with --http for /readyz.
func readiness(t *testing.T, p *rig.Process) (code int, text string) {
	t.Helper()
	return ask(t, p, "/readyz")
}

// ask gets a page of an instance with --http.
func ask(t *testing.T, p *rig.Process, path string) (code int, text string) {
	t.Helper()
	p.Await("metrics and health are served")
	at := regexp.MustCompile(`health are served" address=(\S+)`).FindStringSubmatch(p.Stderr())
	r, err := http.Get("http://" + at[1] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// keepsNoSessions is a way to a broker that grants a session of 0 s to each client: CONNACK says so.
func keepsNoSessions(t *testing.T, broker string) (url string) {
	t.Helper()
	return "mqtt://" + relay(t, func(client *relayed) {
		server, err := client.dial(strings.TrimPrefix(broker, "mqtt://"))
		if err != nil {
			return
		}
		client.running.Go(func() { _, _ = io.Copy(server, client); server.Close() })
		var head [2]byte // CONNACK and its length, which is below 128
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		rest := make([]byte, head[1]) // flags, reason, length of the properties, properties
		if _, err := io.ReadFull(server, rest); err != nil {
			return
		}
		const sessionExpiry = 0x11
		added := []byte{sessionExpiry, 0, 0, 0, 0}
		ack := append([]byte{head[0], head[1] + byte(len(added)), rest[0], rest[1], rest[2] + byte(len(added))}, rest[3:]...)
		if _, err := client.Write(append(ack, added...)); err == nil {
			_, _ = io.Copy(client, server)
		}
	})
}

// relayed is a connection to a relay.
type relayed struct {
	net.Conn
	*connections
}

// connections are those of a relay, and what runs for them.
type connections struct {
	running sync.WaitGroup
	mu      sync.Mutex
	open    []io.Closer
}

// keep has c closed with the relay.
func (r *connections) keep(c io.Closer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, c)
}

// dial opens a connection that ends with the relay.
func (r *connections) dial(addr string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		r.keep(c)
	}
	return c, err
}

// relay gives connections to a port to carry, and closes each when carry returns, and all when the test ends.
func relay(t *testing.T, carry func(client *relayed)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &connections{open: []io.Closer{listener}}
	t.Cleanup(func() {
		r.mu.Lock()
		for _, c := range r.open {
			c.Close()
		}
		r.mu.Unlock()
		r.running.Wait()
	})
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.keep(client)
			r.running.Go(func() {
				defer client.Close()
				carry(&relayed{client, r})
			})
		}
	})
	return listener.Addr().String()
}
