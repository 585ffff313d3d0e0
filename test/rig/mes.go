package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

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
	Results  map[string][]isa95.JobResponse // handed over, by order
	Cleared  map[string]int                 // answers 1 to Clear
	Lost     map[string]int                 // how often it was told that Takt has lost the order; of OrderOnce alone
	Gaps     []mes.Gap
	Seq      int64 // of the last index
}

func (l *Ledger) clone() Ledger {
	c := *l
	c.Accepted, c.Refused, c.Unknown = maps.Clone(l.Accepted), maps.Clone(l.Refused), maps.Clone(l.Unknown)
	c.Results, c.Cleared, c.Lost, c.Gaps = maps.Clone(l.Results), maps.Clone(l.Cleared), maps.Clone(l.Lost), slices.Clone(l.Gaps)
	return c
}

// MES is the MES of a test. Its ledger lasts; Follow and Away are its presence.
type MES struct {
	Client *mes.Client

	t      testing.TB
	memory string
	scopes []isa95.Scope

	mu      sync.Mutex
	ledger  Ledger
	changed chan struct{}
	away    func()
	known   mes.Memory // that Follow uses; nil before
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
	return w.MESOf(filepath.Join(w.cell, "station.yaml"))
}

// MESOf is QuietMES that tells Takt another station.yaml.
func (w *World) MESOf(file string) *MES {
	w.T.Helper()
	m := NewMES(w.T, w.Broker.URL, w.TopicPrefix, filepath.Join(w.Dir, "mes-memory.json"), Scope)
	m.Configure(file)
	return m
}

// NewMES connects an MES.
func NewMES(t testing.TB, url, topicPrefix, memory string, scopes ...isa95.Scope) *MES {
	t.Helper()
	m := &MES{
		t: t, memory: memory, scopes: scopes, changed: make(chan struct{}), away: func() {},
		ledger: Ledger{
			Accepted: map[string]bool{}, Refused: map[string]string{}, Unknown: map[string]error{},
			Results: map[string][]isa95.JobResponse{}, Cleared: map[string]int{}, Lost: map[string]int{},
		},
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	m.Client, err = mes.New(mes.Options{
		MQTT: mqtt.Options{URL: url, ClientID: fmt.Sprintf("mes-%d", time.Now().UnixNano()), Log: quiet}, TopicPrefix: topicPrefix,
		RepeatAfter: time.Second, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Client.Run(ctx) }()
	t.Cleanup(func() {
		m.Away()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := m.Client.Ready(Context(t)); err != nil {
		t.Fatal(err)
	}
	return m
}

// Configure tells Takt what the station of the file has.
func (m *MES) Configure(file string) {
	m.t.Helper()
	conf, err := station.LoadConfiguration(file, recipe.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	events, err := conf.Events("urn:test:mes", time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range events {
		if _, err := m.Client.Send(Context(m.t), e); err != nil {
			m.t.Fatal(err)
		}
	}
}

// Follow is the MES at work, from where its memory file says; Away ends it.
func (m *MES) Follow() {
	m.t.Helper()
	memory, err := mes.OpenMemory(m.memory)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := m.Client.Follow(ctx, m.scopes, mes.FollowOptions{
			Memory: memory, Clear: true, RetryAfter: 200 * time.Millisecond,
			OnResult: func(_ context.Context, _ isa95.Scope, r isa95.JobResponse) error {
				m.note(func(l *Ledger) { l.Results[r.JobOrderID] = append(l.Results[r.JobOrderID], r) })
				return nil
			},
			OnClear: func(_ isa95.Scope, id isa95.JobOrderID, _ isa95.ReturnStatus) {
				m.note(func(l *Ledger) { l.Cleared[string(id)]++ })
			},
			OnIndex: func(_ isa95.Scope, i isa95.StateIndex) { m.note(func(l *Ledger) { l.Seq = int64(i.Seq) }) },
			OnLost: func(_ context.Context, _ isa95.Scope, id isa95.JobOrderID) error {
				m.note(func(l *Ledger) { l.Lost[string(id)]++ })
				return nil
			},
			OnGap: func(g mes.Gap) { m.note(func(l *Ledger) { l.Gaps = append(l.Gaps, g) }) },
		})
		ended <- err
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = memory
	m.away = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			m.t.Errorf("MES: %v", err)
		}
	})
}

// Away ends Follow; the connection for commands stays.
func (m *MES) Away() {
	m.mu.Lock()
	away := m.away
	m.mu.Unlock()
	away()
}

// ordersAtOnce is how many orders an MES sends at once.
const ordersAtOnce = 8

// Order sends orders, every second one as Store and Start, and returns when each is answered.
func (m *MES) Order(orders []*isa95.JobOrder) { m.order(orders, m.send) }

// OrderOnce sends orders with mes.Client.StoreOnce and the memory of Follow, which therefore reports those that Takt loses; an order that was
// lost may be sent again. It returns when each is answered.
func (m *MES) OrderOnce(orders []*isa95.JobOrder) { m.order(orders, m.sendOnce) }

func (m *MES) order(orders []*isa95.JobOrder, send func(_ context.Context, _ *isa95.JobOrder, atOnce bool) error) {
	var wait sync.WaitGroup
	room := make(chan struct{}, ordersAtOnce)
	for i, o := range orders {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			err := send(ctx, o, i%2 == 0)
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
		})
	}
	wait.Wait()
}

func (m *MES) send(ctx context.Context, o *isa95.JobOrder, atOnce bool) error {
	if atOnce {
		_, err := m.Client.StoreAndStart(ctx, Scope, o)
		return err
	}
	if _, err := m.Client.Store(ctx, Scope, o); err != nil {
		return err
	}
	_, err := m.Client.Start(ctx, Scope, isa95.JobOrderID(o.JobOrderID))
	return err
}

func (m *MES) sendOnce(ctx context.Context, o *isa95.JobOrder, _ bool) error {
	m.mu.Lock()
	memory := m.known
	m.mu.Unlock()
	_, err := m.Client.StoreOnce(ctx, memory, mes.Call{Scope: Scope, Method: isa95.StoreAndStart, JobOrder: o})
	return err
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

// Until waits until ok holds for the ledger.
func (m *MES) Until(what string, ok func(Ledger) bool) {
	m.t.Helper()
	late := time.After(2 * Patience)
	for {
		m.mu.Lock()
		l, changed := m.ledger.clone(), m.changed
		m.mu.Unlock()
		if ok(l) {
			return
		}
		select {
		case <-changed:
		case <-late:
			m.t.Fatalf("not within %v: %s; %s", 2*Patience, what, l.summary())
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
	text := fmt.Sprintf("accepted %d, refused %d, unknown %d, results %d, cleared %d, seq %d", len(l.Accepted), len(l.Refused), len(l.Unknown), len(l.Results), len(l.Cleared), l.Seq)
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
