package interop_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/testenv"
)

// patience bounds what is awaited; it only shows when something hangs.
var patience = testenv.Patience

// debian is the Python that has TaskFlow; another one may come first on PATH.
const debian = "/usr/bin/python3"

// peer is a process of Python that uses TaskFlow as it is told: testdata/peer.py.
type peer struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer  // to be read after ended
	ended  chan struct{} // no more lines

	mu    sync.Mutex
	last  int
	calls map[int]*call
}

// call is an operation that goes on in a peer.
type call struct {
	p      *peer
	id     int
	op     string
	events chan answer
	answer chan answer
}

// answer is one line of a peer.
type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
	Text   string          `json:"text"`
	Event  string          `json:"event"`
	Value  json.RawMessage `json:"value"`
}

// pythonError is an exception of Python.
type pythonError struct{ Class, Text string }

func (e *pythonError) Error() string { return e.Class + ": " + e.Text }

// startPeer starts a process that ends with the test.
func startPeer(t *testing.T) *peer {
	t.Helper()
	return startPeers(t, 1)[0]
}

// startPeers starts n at once, for each takes a second to start.
func startPeers(t *testing.T, n int) []*peer {
	t.Helper()
	peers, errs := make([]*peer, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range peers {
		starting.Go(func() { peers[i], errs[i] = newPeer() })
	}
	starting.Wait()
	t.Cleanup(func() {
		for _, p := range peers {
			if p == nil {
				continue
			}
			if p.end(); t.Failed() {
				t.Logf("TaskFlow says:\n%s", &p.stderr)
			}
		}
	})
	testenv.Must(t, errors.Join(errs...))
	return peers
}

// newPeer starts Python with flags.
func newPeer(flags ...string) (*peer, error) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		return nil, err
	}
	if _, err := os.ReadDir(data); err != nil { // go test keeps results until a file changes that the test opened: Python's it does not see
		return nil, err
	}
	p := &peer{cmd: exec.Command(debian, append(flags, filepath.Join(data, "peer.py"))...), ended: make(chan struct{}), calls: map[int]*call{}}
	p.cmd.Env = append(os.Environ(), "PYTHONPATH="+data, "PYTHONDONTWRITEBYTECODE=1", "TZ=UTC")
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	hello := p.register(0, "start")
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s is needed, with Debian's packages python3-taskflow, python3-kazoo and python3-redis: %w", debian, err)
	}
	go p.read(out)
	a, err := hello.wait()
	if err == nil && a.Error != "" {
		err = errors.New(a.Text)
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("%s cannot import what Debian's packages python3-taskflow, python3-kazoo and python3-redis bring: %w\n%s", debian, err, &p.stderr)
	}
	return p, nil
}

// end ends the process, and returns when it is gone.
func (p *peer) end() {
	p.in.Close()
	<-p.ended
	_ = p.cmd.Wait()
}

// kill ends it in the midst of what it does.
func (p *peer) kill(t *testing.T) {
	t.Helper()
	testenv.Must(t, p.cmd.Process.Kill())
	<-p.ended
}

func (p *peer) register(id int, op string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &call{p: p, id: id, op: op, events: make(chan answer, 10_000), answer: make(chan answer, 1)}
	p.calls[id] = c
	return c
}

// read hands lines to those who wait for them.
func (p *peer) read(out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			a = answer{Error: "not JSON", Text: string(line)}
		}
		p.mu.Lock()
		c := p.calls[a.ID]
		p.mu.Unlock()
		if a.Event != "" {
			c.events <- a
		} else {
			c.answer <- a
		}
	}
}

// start begins an operation.
func (p *peer) start(t *testing.T, op string, args map[string]any) *call {
	t.Helper()
	p.mu.Lock()
	p.last++
	id := p.last
	p.mu.Unlock()
	c := p.register(id, op)
	line, err := json.Marshal(map[string]any{"id": id, "op": op, "args": args})
	testenv.Must(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return c
}

// do carries an operation out; an exception is a *pythonError.
func (p *peer) do(t *testing.T, op string, args map[string]any, result any) error {
	t.Helper()
	return p.start(t, op, args).finish(t, result)
}

func (c *call) wait() (answer, error) {
	select {
	case a := <-c.answer:
		return a, nil
	case <-c.p.ended:
		select {
		case a := <-c.answer: // its last word
			return a, nil
		default:
		}
		return answer{}, errors.New("the process has ended")
	case <-time.After(patience):
		return answer{}, errors.New("no answer")
	}
}

// finish waits for the answer.
func (c *call) finish(t *testing.T, result any) error {
	t.Helper()
	a, err := c.wait()
	if err != nil {
		t.Fatalf("%s in Python: %v", c.op, err)
	}
	if a.Error != "" {
		return &pythonError{a.Error, a.Text}
	}
	if result != nil {
		decode(t, a.Result, result)
	}
	return nil
}

// event waits for an event, skipping others.
func (c *call) event(t *testing.T, name string, value any) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case e := <-c.events:
			if e.Event != name {
				continue
			}
			if value != nil {
				decode(t, e.Value, value)
			}
			return
		case a := <-c.answer:
			t.Fatalf("%s in Python ended before it said %q: %s %s %s", c.op, name, a.Result, a.Error, a.Text)
		case <-c.p.ended:
			t.Fatalf("%s: the process has ended", c.op)
		case <-late:
			t.Fatalf("%s in Python never said %q", c.op, name)
		}
	}
}

// tell says "go" or "stop" to an operation.
func (c *call) tell(t *testing.T, what string) {
	t.Helper()
	testenv.Must(t, c.p.do(t, "tell", map[string]any{"id": c.id, "what": what}, nil))
}

func decode(t *testing.T, text json.RawMessage, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

const isoMicros = "2006-01-02T15:04:05.000000"

// tag makes JSON of a value of details that keeps its type: see tag in peer.py.
func tag(v any) any {
	one := func(name string, v any) any { return map[string]any{name: v} }
	switch v := v.(type) {
	case float64:
		return one("$float", strconv.FormatFloat(v, 'g', -1, 64))
	case time.Time:
		return one("$datetime", v.Format(isoMicros))
	case []byte:
		return one("$bytes", hex.EncodeToString(v))
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = tag(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for k := range v {
			all[k] = tag(v[k])
		}
		return all
	}
	return v
}

// untag undoes tag. A set becomes the extension that it is on Redis.
func untag(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		n, err := strconv.ParseUint(v.String(), 10, 64)
		testenv.Must(t, err)
		return n
	case []any:
		for i := range v {
			v[i] = untag(t, v[i])
		}
		return v
	case map[string]any:
		for k, e := range v {
			if strings.HasPrefix(k, "$") {
				return untagOne(t, k, e)
			}
			v[k] = untag(t, e)
		}
		return v
	}
	return v
}

func untagOne(t *testing.T, name string, v any) any {
	t.Helper()
	text, _ := v.(string)
	var value any
	var err error
	switch name {
	case "$float":
		value, err = strconv.ParseFloat(text, 64)
	case "$datetime":
		value, err = time.Parse(isoMicros, strings.TrimSuffix(text, "+00:00"))
	case "$bytes":
		value, err = hex.DecodeString(text)
	case "$frozenset":
		value = frozenset(v.([]any))
	default:
		t.Fatalf("tag %s is unknown", name)
	}
	testenv.Must(t, err)
	return value
}

// frozenset is a frozen set of small numbers.
func frozenset(members []any) driver.Ext {
	data := []byte{0x90 | byte(len(members))}
	for _, m := range members {
		n, err := strconv.Atoi(fmt.Sprint(m))
		if err != nil || n < 0 || n > 127 {
			panic(fmt.Sprint(m, " is no small number"))
		}
		data = append(data, byte(n))
	}
	return driver.Ext{Code: 5, Data: data}
}
