// Package interop_test lets boards of Takt and of Python's TaskFlow use one board on one server, each way.
package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownerRole) != "" { // a process that a test started to kill it
		os.Exit(runOwner())
	}
	if flag.Parse(); testing.Short() {
		return // other languages and servers are for `make test-interop`
	}
	goleak.VerifyTestMain(testenv.WithShared(m), testenv.LibraryGoroutines()...)
}

// kind is a kind of board.
type kind struct {
	name    string
	expires bool // claims end by their time to live; else with the session
	json    bool // details are JSON: values of other types arrive as text

	// fresh makes a new board, and says what Takt and TaskFlow call it.
	fresh func(t *testing.T) place
}

// place is where a board is.
type place struct {
	url  string
	conf map[string]any // of TaskFlow

	// Of ZooKeeper only:
	spoil func(t *testing.T) (ref string)                   // puts a record on the board that is no posting
	nodes func(t *testing.T, path string) map[string]string // names and contents of nodes beside the board; ephemeral ones only
}

const session = 30 * time.Second // long, for machines that are busy

// world is one test: a board, opened by Takt and by TaskFlow.
type world struct {
	*testing.T
	kind
	place
	ctx   context.Context
	books string // directory of TaskFlow's persistence
	b     *board.Board
	py    *python
}

// newWorld makes a new board, opened by p, too.
func newWorld(t *testing.T, k kind, p *peer) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{T: t, kind: k, place: k.fresh(t), ctx: ctx, books: t.TempDir()}
	w.b = w.open()
	w.py = w.openIn(p)
	return w
}

// open opens the board once more with Takt.
func (w *world) open() *board.Board {
	w.Helper()
	b, err := board.Connect{URL: w.url, Session: session}.Open(w.ctx)
	w.must(err)
	w.Cleanup(func() {
		if err := b.Close(); err != nil {
			w.Errorf("close: %v", err)
		}
	})
	return b
}

// openIn opens the board once more with TaskFlow.
func (w *world) openIn(p *peer) *python {
	w.Helper()
	py := &python{w: w, p: p}
	w.must(p.do(w.T, "open", map[string]any{"conf": w.conf, "books": w.books}, &py.id))
	w.Cleanup(func() {
		select {
		case <-p.ended: // the test killed it
		default:
			if err := py.do("close", nil, nil); err != nil {
				w.Error(err)
			}
		}
	})
	return py
}

// within runs tests, each in a world of its own, all with one process of Python.
func within(t *testing.T, k kind, groups ...map[string]func(*world)) {
	t.Helper()
	p := startPeer(t)
	for _, tests := range groups {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(newWorld(t, k, p))
			})
		}
	}
}

// Without TaskFlow the tests fail, and say what to install.
func TestMissingTaskFlow(t *testing.T) {
	t.Parallel()
	p, err := newPeer("-S") // without what is installed
	if err == nil {
		p.end()
		t.Fatal("Python found TaskFlow all the same")
	}
	for _, name := range []string{"python3-taskflow", "python3-kazoo", "python3-redis"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("error is %v, want %v", err, want)
	}
}

func as[E error](w *world, err error) (e E) {
	w.Helper()
	if !errors.As(err, &e) {
		w.Fatalf("error is %v (%T), want a %T", err, err, e)
	}
	return e
}

// raises expects an exception of Python with all texts in it.
func (w *world) raises(err error, class string, texts ...string) {
	w.Helper()
	e := as[*pythonError](w, err)
	if e.Class != class {
		w.Errorf("Python raised %v, want %s", e, class)
	}
	for _, text := range texts {
		if !strings.Contains(e.Text, text) {
			w.Errorf("Python raised %v, which does not name %q", e, text)
		}
	}
}

// post posts with Takt.
func (w *world) post(name string) *board.Posting {
	w.Helper()
	p, err := w.b.Post(w.ctx, board.Draft{Name: name})
	w.must(err)
	return p
}

// posted posts with TaskFlow, and finds it with Takt.
func (w *world) posted(name string) *board.Posting {
	w.Helper()
	return w.find(w.py.post(draft{Name: name}).UUID).Posting
}

func (w *world) find(id string) board.Row {
	w.Helper()
	r, err := w.b.Find(w.ctx, id)
	w.must(err)
	return r
}

func (w *world) list(o board.ListOptions) []board.Row {
	w.Helper()
	rows, err := w.b.List(w.ctx, o)
	w.must(err)
	return rows
}

func (w *world) claim(p *board.Posting, who string, o board.ClaimOptions) *board.Claim {
	w.Helper()
	c, err := w.b.Claim(w.ctx, p, who, o)
	w.must(err)
	return c
}

// sees expects a state and an owner, from Takt and from TaskFlow.
func (w *world) sees(p *board.Posting, state board.State, owner string) {
	w.Helper()
	r, err := w.b.Find(w.ctx, p.Ref)
	if state == board.Complete && errors.Is(err, board.ErrNotFound) {
		r.State, err = board.Complete, nil
	}
	w.must(err)
	if r.State != state || r.Owner != owner {
		w.Errorf("Takt sees %s %v of %q, want %v of %q", p.Name, r.State, r.Owner, state, owner)
	}
	want := state.String()
	if state == board.Trashed {
		want = "COMPLETE"
	}
	if got := w.py.state(p); got != want {
		w.Errorf("TaskFlow sees %s %s, want %s", p.Name, got, want)
	}
	if state == board.Claimed {
		if got := w.py.owner(p); got != owner {
			w.Errorf("TaskFlow sees the owner %q, want %q", got, owner)
		}
	}
}

// python is a board that TaskFlow has open.
type python struct {
	w  *world
	p  *peer
	id int
}

// job is a posting as TaskFlow shows it.
type job struct {
	UUID, Name, Priority, State, Owner string
	Sequence                           int64
	Book                               *board.Book
	Details                            map[string]any
	Created                            any `json:"created_on"`
	Modified                           any `json:"last_modified"`
}

// draft is what TaskFlow is to post.
type draft struct {
	Name     string         `json:"name"`
	Details  map[string]any `json:"details,omitempty"` // tagged
	Priority string         `json:"priority,omitempty"`
	Book     *board.Book    `json:"book,omitempty"`
	Flows    []flow         `json:"flows,omitempty"`
}

// flow is one that TaskFlow keeps in a book.
type flow struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Factory string `json:"factory"`
	Args    []any  `json:"args"`
}

func (py *python) start(op string, args map[string]any) *call {
	py.w.Helper()
	all := map[string]any{"board": py.id}
	for k, v := range args {
		all[k] = v
	}
	return py.p.start(py.w.T, op, all)
}

func (py *python) do(op string, args map[string]any, result any) error {
	py.w.Helper()
	return py.start(op, args).finish(py.w.T, result)
}

func (py *python) post(d draft) job {
	py.w.Helper()
	text, err := json.Marshal(d)
	py.w.must(err)
	var args map[string]any
	decode(py.w.T, text, &args)
	var j job
	py.w.must(py.do("post", args, &j))
	return py.w.plain(j)
}

// list is the board in the order of TaskFlow.
func (py *python) list() []job {
	py.w.Helper()
	var all []job
	py.w.must(py.do("list", nil, &all))
	for i := range all {
		all[i] = py.w.plain(all[i])
	}
	return all
}

// find is one job of the list.
func (py *python) find(uuid string) job {
	py.w.Helper()
	for _, j := range py.list() {
		if j.UUID == uuid {
			return j
		}
	}
	py.w.Fatalf("TaskFlow does not list %s", uuid)
	return job{}
}

// plain undoes the tags of j.
func (w *world) plain(j job) job {
	w.Helper()
	j.Details, _ = untag(w.T, j.Details).(map[string]any)
	j.Created, j.Modified = untag(w.T, j.Created), untag(w.T, j.Modified)
	return j
}

// finish claims, consumes, abandons or trashes.
func (py *python) finish(what string, p *board.Posting, who string) error {
	py.w.Helper()
	return py.do(what, map[string]any{"uuid": p.UUID, "who": who}, nil)
}

func (py *python) claim(p *board.Posting, who string) {
	py.w.Helper()
	py.w.must(py.finish("claim", p, who))
}

func (py *python) state(p *board.Posting) (state string) {
	py.w.Helper()
	py.w.must(py.do("state", map[string]any{"uuid": p.UUID}, &state))
	return state
}

func (py *python) owner(p *board.Posting) (owner string) {
	py.w.Helper()
	py.w.must(py.do("find_owner", map[string]any{"uuid": p.UUID}, &owner))
	return owner
}

// count expects TaskFlow to have n jobs.
func (py *python) count(n int) {
	py.w.Helper()
	if all := py.list(); len(all) != n {
		py.w.Errorf("TaskFlow lists %d, want %d", len(all), n)
	}
}
