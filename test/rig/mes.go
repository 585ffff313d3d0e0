package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// Ledger is what the MES knows, whatever Takt believes.
type Ledger struct {
	Accepted map[string]bool                // orders that Takt took
	Refused  map[string]string              // and why it did not
	Unknown  map[string]error               // commands that were never answered
	Lost     map[string]int                 // orders that Takt had and lost, and that were ordered again
	Results  map[string][]isa95.JobResponse // handed over, by order
	Cleared  map[string]int                 // answers 1 to Clear
	Answers  []Answer                       // to commands, in the order in which they came
	Unheard  int                            // times that a command was not answered within a while, and was sent again under its id
	Seq      int64                          // of the last index
	Indexes  []Index
}

// Index is when a state index came.
type Index struct {
	Seq  int64
	Came time.Time
}

// Answer is when a command was sent and answered.
type Answer struct{ Sent, Came time.Time }

func (l *Ledger) clone() Ledger {
	c := *l
	c.Accepted, c.Refused, c.Unknown = maps.Clone(l.Accepted), maps.Clone(l.Refused), maps.Clone(l.Unknown)
	c.Lost, c.Answers, c.Indexes = maps.Clone(l.Lost), slices.Clone(l.Answers), slices.Clone(l.Indexes)
	c.Results, c.Cleared = maps.Clone(l.Results), maps.Clone(l.Cleared)
	return c
}

// MES is the MES of a test. It stores each order once, whatever becomes of commands and answers, and orders again what Takt reports as lost. Its ledger and
// its memory last; Follow and Away are its presence.
type MES struct {
	Client  *mes.Client
	Forgets bool // Redis is set back: a refused Start says that the order is lost or started already, and either comes to light by itself

	t      testing.TB
	memory *mes.FileMemory
	scopes []isa95.Scope
	again  sync.WaitGroup // orders that were lost and are ordered again

	mu      sync.Mutex
	orders  map[string]func() // orders it again
	starts  map[string]func() // of those that were stored first: starts it again
	ledger  Ledger
	changed chan struct{}
	away    func()
}

// MES starts an MES, tells Takt what the station has, and follows its results.
func (w *World) MES() *MES {
	w.T.Helper()
	m := w.QuietMES()
	m.Follow()
	return m
}

// QuietMES is MES without Follow.
func (w *World) QuietMES() *MES {
	w.T.Helper()
	m := NewMES(w.T, w.Broker.URL, w.TopicPrefix, filepath.Join(w.Dir, "mes-memory.json"), Scope)
	m.Forgets = w.Forgets
	w.Configure(m)
	return m
}

// Configure has an MES tell Takt again what the station has.
func (w *World) Configure(m *MES) {
	w.T.Helper()
	m.Configure(filepath.Join(w.cell, "station.yaml"))
}

// NewMES connects an MES.
func NewMES(t testing.TB, url, topicPrefix, memory string, scopes ...isa95.Scope) *MES {
	t.Helper()
	m := &MES{
		t: t, scopes: scopes, changed: make(chan struct{}), away: func() {}, orders: map[string]func(){}, starts: map[string]func(){},
		ledger: Ledger{
			Accepted: map[string]bool{}, Refused: map[string]string{}, Unknown: map[string]error{}, Lost: map[string]int{},
			Results: map[string][]isa95.JobResponse{}, Cleared: map[string]int{},
		},
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	m.memory, err = mes.OpenMemory(memory)
	testenv.Must(t, err)
	m.Client, err = mes.New(mes.Options{
		MQTT: mqtt.Options{URL: url, ClientID: fmt.Sprintf("mes-%d", time.Now().UnixNano()), Log: quiet}, TopicPrefix: topicPrefix,
		RepeatAfter: time.Second, Log: quiet,
	})
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := m.memory.Close(); err != nil {
			t.Error(err)
		}
	})
	testenv.Run(t, m.Client.Run)
	t.Cleanup(func() {
		m.Away()
		m.again.Wait()
	})
	testenv.Must(t, m.Client.Ready(testenv.Within(t)))
	return m
}

// ReadMemory is what a file holds that the MES of another process uses.
func ReadMemory(t testing.TB, file string) mes.Memory {
	t.Helper()
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return mes.NewMemory()
	}
	testenv.Must(t, err)
	seen := filepath.Join(t.TempDir(), "seen.json")
	Write(t, seen, string(data))
	m, err := mes.OpenMemory(seen)
	testenv.Must(t, err)
	defer m.Close()
	return m
}

// Configure tells Takt what the station of the file has.
func (m *MES) Configure(file string) {
	m.t.Helper()
	conf, err := station.LoadConfiguration(file, recipe.Options{})
	testenv.Must(m.t, err)
	events, err := conf.Events("urn:test:mes", time.Now())
	testenv.Must(m.t, err)
	for _, e := range events {
		if _, err := m.Client.Send(testenv.Within(m.t), e); err != nil {
			m.t.Fatal(err)
		}
	}
}

// Follow is the MES at work, from where its memory says; Away ends it.
func (m *MES) Follow() {
	m.t.Helper()
	away := testenv.Run(m.t, func(ctx context.Context) error {
		_, err := m.Client.Follow(ctx, m.scopes, mes.FollowOptions{
			Memory: m.memory, Clear: true, RetryAfter: 200 * time.Millisecond, OnLost: m.lost,
			OnResult: func(_ context.Context, _ isa95.Scope, r isa95.JobResponse) error {
				m.note(func(l *Ledger) { l.Results[r.JobOrderID] = append(l.Results[r.JobOrderID], r) })
				return nil
			},
			OnClear: func(_ isa95.Scope, id isa95.JobOrderID, _ isa95.ReturnStatus) {
				m.note(func(l *Ledger) { l.Cleared[string(id)]++ })
			},
			OnIndex: func(_ isa95.Scope, i isa95.StateIndex) {
				m.note(func(l *Ledger) {
					l.Seq = int64(i.Seq)
					l.Indexes = append(l.Indexes, Index{l.Seq, time.Now()})
				})
			},
			OnGap: m.gap,
		})
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// Away ends Follow; the connection for commands stays.
func (m *MES) Away() {
	m.mu.Lock()
	away := m.away
	m.mu.Unlock()
	away()
}

// lost is an order that Takt has lost: it is ordered again.
func (m *MES) lost(_ context.Context, _ isa95.Scope, id isa95.JobOrderID) error {
	m.note(func(l *Ledger) { l.Lost[string(id)]++ })
	m.mu.Lock()
	again := m.orders[string(id)]
	m.mu.Unlock()
	if again == nil {
		return fmt.Errorf("%s is lost, and was never ordered", id)
	}
	m.again.Go(again)
	return nil
}

// gap is that indexes were missed. After a loss of Redis an order may be there that was started, and is not any more.
func (m *MES) gap(g mes.Gap) {
	if !g.NewEpoch {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, start := range m.starts {
		if len(m.ledger.Results[id]) == 0 {
			m.again.Go(start)
		} else { // it is over for us: it shall not wait there for its start
			m.again.Go(func() { _, _ = m.Client.Cancel(context.Background(), Scope, isa95.JobOrderID(id)) })
		}
	}
}

// An MES sends so many orders at once. After a while without an answer it asks again.
const (
	ordersAtOnce = 8
	awhile       = 5 * time.Second
)

// patience bounds what an MES waits for: a soak has outages of minutes, one after the other.
var patience = func() time.Duration {
	if os.Getenv("TAKT_TEST_LONG") != "" {
		return 10 * Patience
	}
	return 2 * Patience
}()

// Order sends orders, every second one as Store and Start, and returns when each is answered.
func (m *MES) Order(orders []*isa95.JobOrder) { m.OrderSteadily(orders, len(orders)) }

// OrderSteadily is Order of which at most so many have no result yet: a load that any machine can carry.
func (m *MES) OrderSteadily(orders []*isa95.JobOrder, underWay int) {
	var wait sync.WaitGroup
	room := make(chan struct{}, ordersAtOnce)
	before := len(m.Ledger().Results)
	for i, o := range orders {
		m.Until("there is room for an order", func(l Ledger) bool { return i-(len(l.Results)-before) < underWay })
		room <- struct{}{}
		send := func() { m.order(o, i%2 == 0) }
		m.mu.Lock()
		m.orders[o.JobOrderID] = send
		m.mu.Unlock()
		wait.Go(func() {
			defer func() { <-room }()
			send()
		})
	}
	wait.Wait()
}

// order sends an order until it is answered, and notes the answer.
func (m *MES) order(o *isa95.JobOrder, atOnce bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := m.send(ctx, o, atOnce)
	var refused *mes.RefusedError
	m.note(func(l *Ledger) {
		switch {
		case err == nil:
			l.Accepted[o.JobOrderID] = true
		case errors.As(err, &refused):
			l.Refused[o.JobOrderID] = refused.Error()
		default:
			l.Unknown[o.JobOrderID] = err
		}
	})
}

func (m *MES) send(ctx context.Context, o *isa95.JobOrder, atOnce bool) error {
	store := mes.Call{Scope: Scope, Method: isa95.StoreAndStart, JobOrder: o}
	if !atOnce {
		store.Method = isa95.Store
	}
	lost := m.Ledger().Lost[o.JobOrderID]
	err := m.ask(ctx, func(ctx context.Context) error {
		_, err := m.Client.StoreOnce(ctx, m.memory, store)
		return err
	})
	if err != nil || atOnce {
		return err
	}
	err = m.start(ctx, o, fmt.Sprintf("%s-lost-%d-start", o.JobOrderID, lost))
	var refused *mes.RefusedError
	if err != nil && !(m.Forgets && errors.As(err, &refused)) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts[o.JobOrderID] = func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = m.start(ctx, o, fmt.Sprintf("%s-start-%d", o.JobOrderID, time.Now().UnixNano())) // refused: it is started, or over
	}
	return nil
}

func (m *MES) start(ctx context.Context, o *isa95.JobOrder, command string) error {
	return m.ask(ctx, func(ctx context.Context) error {
		_, err := m.Client.Call(ctx, mes.Call{ID: command, Scope: Scope, Method: isa95.Start, JobOrderID: isa95.JobOrderID(o.JobOrderID)})
		return err
	})
}

// ask sends a command, under one id, until it is answered or ctx ends. What becomes of one without an answer is unknown: Takt may have carried it out.
func (m *MES) ask(ctx context.Context, command func(ctx context.Context) error) error {
	begin := time.Now()
	for {
		short, cancel := context.WithTimeout(ctx, awhile)
		err := command(short)
		unheard := short.Err() != nil && ctx.Err() == nil
		cancel()
		var refused *mes.RefusedError
		if err == nil || errors.As(err, &refused) || !unheard {
			m.note(func(l *Ledger) { l.Answers = append(l.Answers, Answer{begin, time.Now()}) })
			return err
		}
		m.note(func(l *Ledger) { l.Unheard++ })
	}
}

func (m *MES) note(f func(*Ledger)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.ledger)
	close(m.changed)
	m.changed = make(chan struct{})
}

// Ledger is a copy of what the MES knows now.
func (m *MES) Ledger() Ledger {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger.clone()
}

// Until waits until ok holds for the ledger, which it must not keep.
func (m *MES) Until(what string, ok func(Ledger) bool) {
	m.t.Helper()
	late := time.After(patience)
	for {
		m.mu.Lock()
		done, changed := ok(m.ledger), m.changed
		m.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			l := m.Ledger()
			m.t.Fatalf("not within %v: %s; %s", patience, what, l.summary())
		}
	}
}

// UntilResults waits until the MES has the results of n orders.
func (m *MES) UntilResults(n int) {
	m.t.Helper()
	m.Until(fmt.Sprintf("%d results", n), func(l Ledger) bool { return len(l.Results) >= n })
}

// UntilDone waits until n orders are accepted and all of them are given back and cleared.
func (m *MES) UntilDone(n int) {
	m.t.Helper()
	m.Until(fmt.Sprintf("%d orders done", n), func(l Ledger) bool {
		if len(l.Accepted)+len(l.Refused)+len(l.Unknown) < n {
			return false
		}
		for id := range l.Accepted {
			if len(l.Results[id]) == 0 || l.Cleared[id] == 0 {
				return false
			}
		}
		return true
	})
}

func (l *Ledger) summary() string {
	text := fmt.Sprintf("accepted %d, refused %d, unknown %d, lost %d, results %d, cleared %d, seq %d",
		len(l.Accepted), len(l.Refused), len(l.Unknown), len(l.Lost), len(l.Results), len(l.Cleared), l.Seq)
	var missing []string
	for id := range l.Accepted {
		switch {
		case len(l.Results[id]) == 0:
			missing = append(missing, id+" (no result)")
		case l.Cleared[id] == 0:
			missing = append(missing, id+" (not cleared)")
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		text += fmt.Sprintf("; left: %v", missing[:min(len(missing), 10)])
	}
	for id, why := range l.Refused {
		text += fmt.Sprintf("; %s refused: %s", id, why)
		break
	}
	for id, why := range l.Unknown {
		text += fmt.Sprintf("; %s not answered: %v", id, why)
		break
	}
	return text
}
