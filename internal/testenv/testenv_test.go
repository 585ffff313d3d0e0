package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/redis"
)

func TestRedisIsPrivate(t *testing.T) {
	a, b := Redis(t), Redis(t)
	if a.Server.PID() == b.Server.PID() || a.Addr == b.Addr {
		t.Fatalf("two servers of one test are the same: %v %v", a.URL, b.URL)
	}
	key := a.Prefix(t) + ":k"
	Must(t, a.Client.Do(t.Context(), a.Client.B().Set().Key(key).Value("v").Build()).Error())
	keys, err := a.AllKeys(t.Context())
	if err != nil || !slices.Equal(keys, []string{key}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	if !a.owns(key) || a.owns("t11:k") || a.owns("other") {
		t.Error("owns is wrong")
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, a ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return len(r.errors) > 0 }
func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func TestForeignKeyFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	srv := Redis(r)
	prefix := srv.Prefix(r)
	for _, k := range []string{prefix + ":mine", "stray"} {
		Must(t, srv.Client.Do(t.Context(), srv.Client.B().Set().Key(k).Value("v").Build()).Error())
	}
	r.end()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], `"stray"`) {
		t.Errorf("errors %q, want one about the stray key", r.errors)
	}
}

func TestProxyCountsRoundTrips(t *testing.T) {
	srv := Redis(t)
	p := CountingProxy(t, srv.URL)
	rdb := srv.Connect(t, redis.Options{URL: p.URL})
	do := func() error {
		return rdb.Do(t.Context(), rdb.B().Exists().Key("k").Build()).Error()
	}
	p.Reset()
	for range 5 {
		Must(t, do())
	}
	if got := p.Trips(); got != 5 {
		t.Errorf("5 commands one by one: %d trips", got)
	}
	p.Reset()
	for _, r := range rdb.DoMulti(t.Context(), rdb.B().Exists().Key("a").Build(), rdb.B().Exists().Key("b").Build()) {
		if r.Error() != nil {
			t.Fatal(r.Error())
		}
	}
	if got := p.Trips(); got != 1 {
		t.Errorf("2 commands together: %d trips", got)
	}
}

// echo answers every line with itself and counts the lines it got.
func echo(t *testing.T) (addr string, got func() int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	lines := make(chan string, 100)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan(); {
					lines <- s.Text()
					fmt.Fprintln(c, s.Text())
				}
			}()
		}
	}()
	return l.Addr().String(), func() int { return len(lines) }
}

// brief is how long a test waits for an answer that must not come.
const brief = 200 * time.Millisecond

// line is a connection that says lines and hears answers.
type line struct {
	c net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *line {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	Must(t, err)
	t.Cleanup(func() { c.Close() })
	return &line{c, bufio.NewReader(c)}
}

// say sends a line and waits for its answer, for minutes.
func (l *line) say(text string) (string, error) {
	if err := l.send(text); err != nil {
		return "", err
	}
	return l.hear(Patience)
}

func (l *line) send(text string) error {
	_, err := fmt.Fprintln(l.c, text)
	return err
}

func (l *line) hear(limit time.Duration) (string, error) {
	if err := l.c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	s, err := l.r.ReadString('\n')
	return strings.TrimSpace(s), err
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestProxyFaults(t *testing.T) {
	addr, got := echo(t)
	p := CountingProxy(t, addr)

	c := dial(t, p.Addr)
	for _, n := range []int{0, 1} {
		p.Fragment(n)
		if s, err := c.say("hello"); err != nil || s != "hello" {
			t.Fatalf("pieces of %d: %q, %v", n, s, err)
		}
	}
	if p.Trips() != 2 || p.Conns() != 1 || p.Dials() != 1 {
		t.Errorf("trips %d, connections %d, dials %d", p.Trips(), p.Conns(), p.Dials())
	}

	p.Stall(true)
	Must(t, c.send("later"))
	if s, err := c.hear(brief); !isTimeout(err) {
		t.Errorf("stalled: %q, %v", s, err)
	}
	p.Stall(false)
	if s, err := c.say("now"); err != nil || s != "later" {
		t.Errorf("after the stall the held answer comes first: %q, %v", s, err)
	}

	p.Cut()
	if s, err := c.say("gone"); err == nil || isTimeout(err) {
		t.Errorf("cut: %q, %v", s, err)
	}

	c = dial(t, p.Addr)
	before := got()
	p.LoseReplies(1)
	if s, err := c.say("done"); err == nil || isTimeout(err) || got() != before+1 {
		t.Errorf("reply lost: %q, %v, %d lines arrived", s, err, got()-before)
	}

	c = dial(t, p.Addr)
	before = got()
	p.LoseReplyTo("doomed")
	if s, err := c.say("spared"); err != nil || s != "spared" {
		t.Errorf("another reply: %q, %v", s, err)
	}
	if s, err := c.say("doomed"); err == nil || isTimeout(err) || got() != before+2 {
		t.Errorf("reply lost: %q, %v, %d lines arrived", s, err, got()-before)
	}
	c = dial(t, p.Addr)
	if s, err := c.say("doomed"); err != nil || s != "doomed" {
		t.Errorf("once only: %q, %v", s, err)
	}

	c = dial(t, p.Addr)
	p.DropReplies(true)
	before = got()
	Must(t, c.send("done"))
	Eventually(t, "it arrives", func() bool { return got() == before+1 })
	if s, err := c.hear(brief); !isTimeout(err) {
		t.Errorf("reply dropped: %q, %v", s, err)
	}
	p.DropReplies(false)
	if s, err := c.say("more"); err == nil || isTimeout(err) {
		t.Errorf("a connection that missed a reply goes on: %q, %v", s, err)
	}

	p.Refuse(true)
	if refused, err := net.Dial("tcp", p.Addr); err == nil { // cut at once, if not already while dialling
		if n, err := refused.Read(make([]byte, 1)); err == nil {
			t.Errorf("refused, but %d bytes came", n)
		}
		refused.Close()
	}
	p.Refuse(false)
	p.Delay(time.Millisecond)
	if s, err := dial(t, p.Addr).say("yes"); err != nil || s != "yes" {
		t.Errorf("afterwards: %q, %v", s, err)
	}
}
