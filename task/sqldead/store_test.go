package sqldead_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/sqldead"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var patience = testenv.Patience // only seen when something hangs

type args struct{ N int }

// env is a server, a database and a task type whose tasks fail until mended.
type env struct {
	t      *testing.T
	srv    *testenv.RedisServer
	client *task.Client
	prefix string
	file   string
	store  *sqldead.Store
	typ    *task.Type[args, int]
	mended atomic.Bool
}

func newEnv(t *testing.T) *env {
	srv := testenv.Redis(t)
	e := &env{t: t, srv: srv, prefix: srv.Prefix(t), file: filepath.Join(t.TempDir(), "dead.db"), typ: task.Define[args, int]("test:Fail", task.Positional())}
	var err error
	if e.client, err = task.New(srv.Client, task.Options{Prefix: e.prefix, LockPrefix: e.prefix + ":"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.client.Close)
	e.store = e.open(sqldead.Options{})
	if err := e.store.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) ctx() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	e.t.Cleanup(cancel)
	return ctx
}

// eventually waits for a state of Redis or the database that tells nobody of its coming.
func (e *env) eventually(what string, ok func() bool) {
	e.t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			e.t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func (e *env) db() *sql.DB {
	db, err := sql.Open("sqlite", "file:"+e.file+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		e.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	e.t.Cleanup(func() { _ = db.Close() })
	return db
}

func (e *env) open(o sqldead.Options) *sqldead.Store {
	s, err := sqldead.New(e.db(), e.client, o)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

// work runs a worker until stop is called.
func (e *env) work() (stop func()) {
	e.t.Helper()
	w, err := e.client.Worker(task.WorkerOptions{}, e.typ.Handle(func(_ context.Context, j *task.Job[args]) (int, error) {
		if e.mended.Load() {
			return j.Args.N, nil
		}
		return 0, errors.New("boom")
	}))
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-end; err != nil {
			e.t.Error(err)
		}
	}
}

// dead makes n dead letters in Redis, without a worker after that.
func (e *env) dead(n int) (handles []*task.Handle[int]) {
	e.t.Helper()
	stop := e.work()
	defer stop()
	for i := range n {
		h, err := e.typ.Submit(e.ctx(), e.client, args{i})
		if err != nil {
			e.t.Fatal(err)
		}
		handles = append(handles, h)
		if _, err := h.Await(e.ctx()); err == nil {
			e.t.Fatal("done")
		}
	}
	return handles
}

func (e *env) list(d task.DeadLetters, f task.DeadFilter) (ids []string) {
	e.t.Helper()
	for {
		page, err := d.List(e.ctx(), f)
		if err != nil {
			e.t.Fatal(err)
		}
		for _, l := range page.Letters {
			ids = append(ids, l.ID)
		}
		if f.After = page.Next; f.After == "" {
			return ids
		}
	}
}

func (e *env) move(want int) {
	e.t.Helper()
	if n, err := e.store.Move(e.ctx()); err != nil || n != want {
		e.t.Fatalf("%d moved, %v, want %d", n, err, want)
	}
}

func idsOf(handles []*task.Handle[int]) (ids []string) {
	for _, h := range handles {
		ids = append(ids, h.ID)
	}
	return ids
}

func (e *env) check() task.Report {
	e.t.Helper()
	r, found, err := task.Audit(e.ctx(), e.client, 0)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, v := range found {
		e.t.Error(v)
	}
	return r
}

// Letters move into the table as they are, and a requeued one runs with the same id.
func TestMoveAndRequeue(t *testing.T) {
	e := newEnv(t)
	handles := e.dead(3)
	before, err := e.client.DeadLetters().Show(e.ctx(), handles[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	e.move(3)
	e.move(0)
	if r := e.check(); r.Dead != 0 {
		t.Errorf("%+v", r)
	}
	if got := e.list(e.store, task.DeadFilter{}); !slices.Equal(got, idsOf(handles)) {
		t.Errorf("%q", got)
	}
	l, err := e.store.Show(e.ctx(), handles[1].ID)
	if err != nil || l.Error.Message != "boom" || string(l.Args) != "[1]" || !l.Died.Equal(before.Died) || len(l.History) != 1 {
		t.Errorf("%+v %v", l, err)
	}
	var class, said, history, status, jsonArgs string
	var submitted int64
	row := e.db().QueryRowContext(e.ctx(), "SELECT task_class, last_error, history, status, submitted_at, task_args FROM dead_tasks WHERE id = ?", handles[1].ID)
	if err := row.Scan(&class, &said, &history, &status, &submitted, &jsonArgs); err != nil {
		t.Fatal(err)
	}
	if class != "test:Fail" || said != "boom" || status != "PENDING" || submitted != before.Enqueued.UnixMicro() || jsonArgs != "[1]" || history == "" {
		t.Errorf("%q %q %q %q %d", class, said, history, status, submitted)
	}
	e.mended.Store(true)
	defer e.work()()
	if n, err := e.store.Requeue(e.ctx(), handles[1].ID); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got, err := handles[1].Await(e.ctx()); got != 1 || err != nil {
		t.Error(got, err)
	}
	if n, err := e.store.Requeue(e.ctx(), handles[1].ID); n != 0 || !errors.Is(err, task.ErrNotFound) {
		t.Error(n, err)
	}
	if n, err := e.store.Delete(e.ctx(), handles[0].ID, handles[1].ID, "nobody"); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got := e.list(e.store, task.DeadFilter{}); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestList(t *testing.T) {
	e := newEnv(t)
	all := idsOf(e.dead(5))
	e.move(5)
	for _, limit := range []int{1, 2, 5, 500} {
		for _, c := range []struct {
			f    task.DeadFilter
			want []string
		}{
			{task.DeadFilter{}, all},
			{task.DeadFilter{Name: "test:Fail", Reason: "errors.errorString", Queue: "normal:medium", Since: time.UnixMilli(1), Until: time.Now().Add(time.Hour)}, all},
			{task.DeadFilter{Name: "test:Other"}, nil},
			{task.DeadFilter{Reason: "timeout"}, nil},
			{task.DeadFilter{Queue: "normal:large"}, nil},
			{task.DeadFilter{Since: time.Now().Add(time.Hour)}, nil},
			{task.DeadFilter{Until: time.UnixMilli(1)}, nil},
		} {
			c.f.Limit = limit
			if got := e.list(e.store, c.f); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q", c.f, got)
			}
		}
	}
	for _, f := range []task.DeadFilter{{Limit: -1}, {After: "x"}} {
		if _, err := e.store.List(e.ctx(), f); err == nil {
			t.Errorf("%+v", f)
		}
	}
}

// Of many operators at many stores one requeues each letter.
func TestRequeueByMany(t *testing.T) {
	e := newEnv(t)
	handles := e.dead(6)
	e.move(6)
	var total atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		s := e.open(sqldead.Options{})
		all.Go(func() {
			n, err := task.RequeueAll(e.ctx(), s, task.DeadFilter{})
			total.Add(int64(n))
			if err != nil && !errors.Is(err, task.ErrNotFound) && !errors.Is(err, sqldead.ErrClaimed) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if total.Load() != int64(len(handles)) {
		t.Errorf("%d of %d", total.Load(), len(handles))
	}
	if r := e.check(); r.Waiting != len(handles) {
		t.Errorf("%+v", r)
	}
}

// An operator that dies between the submission and its mark leaves a claim that ends; the letter is not submitted twice.
func TestRequeueAfterCrash(t *testing.T) {
	e := newEnv(t)
	h := e.dead(1)[0]
	e.move(1)
	l, err := e.store.Show(e.ctx(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.Resubmit(e.ctx(), l); err != nil {
		t.Fatal(err)
	}
	claim := func(at time.Time) {
		if _, err := e.db().ExecContext(e.ctx(), "UPDATE dead_tasks SET status = 'CLAIMED', claimed_at = ?", at.UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
	now, err := e.client.Now(e.ctx())
	if err != nil {
		t.Fatal(err)
	}
	claim(now.Add(time.Hour)) // that is, now
	if n, err := e.store.Requeue(e.ctx(), h.ID); n != 0 || !errors.Is(err, sqldead.ErrClaimed) {
		t.Error(n, err)
	}
	claim(now.Add(-2 * time.Minute))
	if n, err := e.store.Requeue(e.ctx(), h.ID); n != 1 || err != nil {
		t.Error(n, err)
	}
	if r := e.check(); r.Waiting != 1 {
		t.Errorf("%+v", r)
	}
}

// A mover that dies after its commit, before Redis has forgotten, does not make two of one.
func TestMoveIsIdempotent(t *testing.T) {
	e := newEnv(t)
	h := e.dead(1)[0]
	dead := e.srv.Client.Do(e.ctx(), e.srv.Client.B().Arbitrary("HGET").Keys(e.prefix+":tasks:dead").Args(h.ID).Build())
	letter, err := dead.ToString()
	if err != nil {
		t.Fatal(err)
	}
	e.move(1)
	for _, words := range [][]string{{"HSET", e.prefix + ":tasks:dead", h.ID, letter}, {"ZADD", e.prefix + ":tasks:dead:index", "1", h.ID}} {
		if err := e.srv.Client.Do(e.ctx(), e.srv.Client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := e.store.Requeue(e.ctx(), h.ID); n != 1 || err != nil { // before the mover comes again
		t.Error(n, err)
	}
	e.move(0)
	if got := e.list(e.store, task.DeadFilter{}); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if r := e.check(); r.Waiting != 1 || r.Dead != 0 {
		t.Errorf("%+v", r)
	}
}

// While the database is away letters stay in Redis; the mover outlives that, and moves them when it is back.
func TestDatabaseAway(t *testing.T) {
	e := newEnv(t)
	handles := e.dead(2)
	db := e.db()
	s, err := sqldead.New(db, e.client, sqldead.Options{Table: "later", Every: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Move(e.ctx()); n != 0 || err == nil {
		t.Errorf("%d moved without a table, %v", n, err)
	}
	if r := e.check(); r.Dead != 2 {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(e.ctx())
	end := make(chan error, 1)
	go func() { end <- s.Run(ctx) }()
	if err := s.Create(e.ctx()); err != nil {
		t.Fatal(err)
	}
	e.eventually("they are moved", func() bool { return len(e.list(s, task.DeadFilter{})) == len(handles) })
	cancel()
	if err := <-end; err != nil {
		t.Error(err)
	}
	if r := e.check(); r.Dead != 0 {
		t.Errorf("%+v", r)
	}
}

// What could not be read can be looked at and deleted, and stays when somebody wants to requeue it.
func TestUnreadable(t *testing.T) {
	e := newEnv(t)
	if err := e.srv.Client.Do(e.ctx(), e.srv.Client.B().Xadd().Key(e.prefix+":tasks:normal:medium").Id("1-1").FieldValue().FieldValue("data", "junk\x00").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	stop := e.work()
	const id = "_raw:normal:medium:1-1"
	e.eventually("it is dead", func() bool {
		_, err := e.client.DeadLetters().Show(e.ctx(), id)
		return err == nil
	})
	stop()
	e.move(1)
	l, err := e.store.Show(e.ctx(), id)
	if err != nil || l.Readable || l.Raw != "6a756e6b00" {
		t.Errorf("%+v %v", l, err)
	}
	if n, err := e.store.Requeue(e.ctx(), id); n != 0 || !errors.Is(err, task.ErrUnreadable) {
		t.Error(n, err)
	}
	if n, err := e.store.Delete(e.ctx(), id); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestNewRefuses(t *testing.T) {
	e := newEnv(t)
	for _, o := range []sqldead.Options{{Table: "a b"}, {Table: "a;drop"}, {ClaimFor: -1}, {Every: -1}} {
		if _, err := sqldead.New(e.db(), e.client, o); err == nil {
			t.Errorf("%+v", o)
		}
	}
	if _, err := sqldead.New(nil, e.client, sqldead.Options{}); err == nil {
		t.Error("without a database")
	}
}
