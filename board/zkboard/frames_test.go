//go:build interop

package zkboard_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

// op is one request, or a part of a transaction.
type op struct {
	name, path, data string
	number           int32 // flags of create, version of the others
	watch            bool  // of reads: the next change is to be told
}

func (o op) String() string { return fmt.Sprintf("%s %s %q %d", o.name, o.path, o.data, o.number) }

// decoder takes a frame apart; what is left over or missing is an error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.err = fmt.Errorf("%d bytes wanted, %d there", n, len(d.rest))
		return make([]byte, max(min(n, 64), 0))
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) int() int32   { return int32(binary.BigEndian.Uint32(d.bytes(4))) }
func (d *decoder) bool() bool   { return d.bytes(1)[0] != 0 }
func (d *decoder) text() string { return string(d.bytes(int(max(d.int(), 0)))) } // -1 is none

func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		return fmt.Errorf("%d bytes left", len(d.rest))
	}
	return d.err
}

const (
	opPing, opClose       = 11, -11 // numbers of the protocol
	opMulti, opSetWatches = 14, 101
	opCreate, opDelete    = 1, 2
)

var names = map[int32]string{opCreate: "create", opDelete: "delete", 3: "exists", 4: "getData", 5: "setData", 8: "getChildren", 9: "sync", opPing: "ping", 12: "getChildren2", 13: "check", opMulti: "multi", opClose: "close", opSetWatches: "setWatches"}

// request reads what follows the length and the number of the request; one op, or those of a transaction.
func (d *decoder) request() (kind int32, ops []op) {
	kind = d.int()
	if kind != opMulti {
		return kind, []op{d.op(kind)}
	}
	for {
		part, done := d.int(), d.bool()
		d.int()
		if done || d.err != nil {
			return kind, ops
		}
		ops = append(ops, d.op(part))
	}
}

func (d *decoder) op(kind int32) op {
	o := op{name: names[kind]}
	switch kind {
	case opPing, opClose:
	case opCreate:
		o.path, o.data = d.text(), d.text()
		for range d.int() {
			if perms, scheme, id := d.int(), d.text(), d.text(); perms != 31 || scheme != "world" || id != "anyone" {
				d.err = fmt.Errorf("ACL %d %s %s", perms, scheme, id)
			}
		}
		o.number = d.int()
	case opDelete, 13:
		o.path, o.number = d.text(), d.int()
	case 5:
		o.path, o.data, o.number = d.text(), d.text(), d.int()
	case 3, 4, 8, 12:
		o.path, o.watch = d.text(), d.bool()
	case 9:
		o.path = d.text()
	default:
		d.err = fmt.Errorf("request %d is not known", kind)
	}
	return o
}

// captured is what TaskFlow 5.0.0 asked, by step.
func captured(t *testing.T) map[string][][]op {
	t.Helper()
	raw, err := os.ReadFile("testdata/taskflow-zookeeper-frames.json")
	testenv.Must(t, err)
	var frames []struct{ Step, Dir, Hex string }
	testenv.Must(t, json.Unmarshal(raw, &frames))
	steps := map[string][][]op{}
	for i, f := range frames {
		if i == 0 || f.Dir != ">" { // the request for a session, and what the server says
			continue
		}
		data, err := hex.DecodeString(f.Hex)
		testenv.Must(t, err)
		d := &decoder{rest: data}
		d.bytes(4 + 4) // length, number
		_, ops := d.request()
		steps[f.Step] = append(steps[f.Step], ops)
		if err := d.end(); err != nil {
			t.Errorf("frame %d (%s): %v", i, f.Step, err)
		}
	}
	return steps
}

// tap collects the requests that pass a proxy with one connection.
type tap struct {
	mu   sync.Mutex
	rest []byte
	open bool // the first frame was seen
	seen [][]op
	bad  error
}

func (c *tap) note(fromClient bool, data []byte) {
	if !fromClient {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, data...)
	for len(c.rest) >= 4 && len(c.rest) >= 4+int(binary.BigEndian.Uint32(c.rest)) {
		n := 4 + int(binary.BigEndian.Uint32(c.rest))
		d := &decoder{rest: slices.Clone(c.rest[4:n])}
		c.rest = c.rest[n:]
		if !c.open {
			c.open = true
			continue
		}
		d.int()
		kind, ops := d.request()
		if err := d.end(); err != nil && kind != opSetWatches {
			c.bad = err
		}
		if kind != opPing {
			c.seen = append(c.seen, ops)
		}
	}
}

// take returns what was asked since the last call.
func (c *tap) take(t *testing.T) [][]op {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bad != nil {
		t.Error(c.bad)
	}
	seen := c.seen
	c.seen = nil
	return seen
}

// tapped opens a board whose requests can be seen. The proxy must be new.
func (e *env) tapped(t *testing.T, path string) (*board.Board, *tap) {
	t.Helper()
	c := &tap{}
	p := testenv.CountingProxy(t, e.Addr)
	p.Tap(c.note)
	s := openStore(t, "zookeeper://"+p.Addr+path, long)
	b := board.New(s, nil)
	t.Cleanup(func() { b.Close() })
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proxies[b], e.stores[b] = p, s
	return b, c
}

var digits = regexp.MustCompile(`job\d{10}`)

// writes are the nodes that requests make and delete, with paths from the folder of the board on, and without numbers of postings. What Takt writes beside them is left out: its clock, and the mark in the trash.
func writes(requests [][]op, folder string) (all []op) {
	for _, r := range requests {
		for _, o := range r {
			if o.name != "create" && o.name != "delete" || strings.Contains(o.path, "/.takt") {
				continue
			}
			o.path = digits.ReplaceAllString(strings.TrimPrefix(o.path, folder), "job#")
			if posting, _, marked := strings.Cut(o.data, `, "x_board"`); marked {
				o.data = posting + "}"
			}
			if o.name == "delete" {
				o.number = 0 // ours are counts
			}
			all = append(all, o)
		}
	}
	return all
}

// What Takt asks is what TaskFlow asks, beside reads, and beside nodes that TaskFlow does not look at: compared are the requests on the wire, of transactions their parts.
func TestRequestsAreThoseOfTaskFlow(t *testing.T) {
	t.Parallel()
	steps := captured(t)
	e := shared(t)
	folder := e.Path(t)
	b, wire := e.tapped(t, folder+"/jobs")
	exact := board.ClaimOptions{ExactOwner: true}
	must := func(err error) {
		t.Helper()
		testenv.Must(t, err)
	}
	var p *board.Posting
	var c *board.Claim
	post := func(name, uuid string) func() {
		return func() {
			var err error
			p, err = b.Post(t.Context(), board.Draft{Name: name, UUID: uuid})
			must(err)
		}
	}
	claim := func() {
		var err error
		c, err = b.Claim(t.Context(), p, "w1", exact)
		must(err)
	}
	compare := func(step string, do func()) {
		t.Helper()
		do()
		got, want := writes(wire.take(t), folder), writes(steps[step], "/sniff")
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", step, got, want)
		}
	}
	// The folder above the board is there already.
	got, want := writes(wire.take(t), folder), writes(steps["connect+ensure_path+watch"], "/sniff")
	if !slices.Equal(got, want[1:]) {
		t.Errorf("connect:\n got %v\nwant %v", got, want[1:])
	}
	compare("post", post("job-1", "0c832105-e9b9-4462-b46c-8429df473a87"))
	compare("claim ok", claim)
	compare("claim already claimed", func() {
		if _, err := b.Claim(t.Context(), p, "w2", exact); err == nil {
			t.Error("claimed twice")
		}
	})
	compare("abandon", func() { must(c.Abandon(t.Context())) })
	compare("claim+consume", func() { claim(); must(c.Consume(t.Context())) })
	compare("claim+trash", func() { post("job-2", "25280044-b840-499d-a463-18fac1f5ab52")(); claim(); must(c.Trash(t.Context())) })
	compare("register entity", func() {
		release, err := b.RegisterEntity(t.Context(), board.Entity{Kind: "conductor", Name: "c@h:1", Metadata: map[string]any{"pid": 1}})
		must(err)
		_ = release // at the end, with the session
	})
}
