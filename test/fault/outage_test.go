package fault_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// Fault 18, E-P7: while the MES is away and nobody publishes, there are more changes than the change streams keep. What was
// trimmed is not missed: the publisher and the MES come back and get everything.
func TestFault18OutageBeyondTheChangeStreams(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{})
	w.Serve("work", "--roles", "receiver,engine")
	publisher := w.Serve("publisher", "--roles", "publisher")
	m := w.MES()
	m.Order(rig.Orders("BEFORE", 10))
	m.UntilDone(10)
	m.Away()
	before := m.Ledger()
	publisher.Kill()

	m.Order(rig.Orders("AWAY", 40)) // their results are the oldest changes
	w.UntilExecuted(5 * 50)
	cursor := hash(t, w, w.Keys.Cursors(), "_global")
	update(t, w, m, 5200)
	first := firstEntry(t, w, w.Keys.ChangesAll())
	if !newer(first, cursor) {
		t.Fatalf("the oldest change is %s, the publisher read up to %s: nothing was trimmed", first, cursor)
	}

	w.Serve("publisher", "--roles", "publisher")
	m.Follow()
	m.UntilDone(50)
	l := m.Ledger()
	if l.Seq <= before.Seq {
		t.Errorf("seq %d after %d", l.Seq, before.Seq)
	}
	w.Verify(m)
}

// update stores some orders, updates them until there are n changes, and cancels them.
func update(t *testing.T, w *rig.World, m *rig.MES, n int) {
	t.Helper()
	const some = 40
	var updating sync.WaitGroup
	for i := range some {
		updating.Go(func() {
			o := &isa95.JobOrder{JobOrderID: fmt.Sprintf("DRAFT-%d", i)}
			_, err := m.Client.Store(t.Context(), rig.Scope, o)
			for j := 0; err == nil && j < n/some; j++ {
				o.JobOrderParameters = []isa95.Parameter{{ID: "revision", Value: json.RawMessage(fmt.Sprint(j))}}
				_, err = m.Client.Update(t.Context(), rig.Scope, o)
			}
			if err == nil {
				_, err = m.Client.Cancel(t.Context(), rig.Scope, isa95.JobOrderID(o.JobOrderID))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	updating.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func hash(t *testing.T, w *rig.World, key, field string) string {
	t.Helper()
	c := w.Redis.Client
	value, err := c.Do(t.Context(), c.B().Hget().Key(key).Field(field).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func firstEntry(t *testing.T, w *rig.World, stream string) string {
	t.Helper()
	c := w.Redis.Client
	entries, err := c.Do(t.Context(), c.B().Xrange().Key(stream).Start("-").End("+").Count(1).Build()).AsXRange()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	return entries[0].ID
}

// newer says whether the entry id a comes after b.
func newer(a, b string) bool {
	var ams, an, bms, bn int64
	_, _ = fmt.Sscanf(a, "%d-%d", &ams, &an)
	_, _ = fmt.Sscanf(b, "%d-%d", &bms, &bn)
	return ams > bms || ams == bms && an > bn
}
