package fault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/test/rig"
)

// largest is the most memory that a process has had resident since it began, in bytes, as Linux counts it.
func largest(t *testing.T, p *rig.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	testenv.Must(t, err)
	found := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kB, err := strconv.Atoi(string(found[1]))
	testenv.Must(t, err)
	return kB << 10
}

// retainedCount follows what comes on the retained topics of the one scope and keeps nothing of it.
type retainedCount struct{ orders, indexes atomic.Int64 }

func (c *retainedCount) take(_ context.Context, in *mqtt.Inbound) {
	switch {
	case len(in.Payload) == 0:
	case strings.HasSuffix(in.Topic, "/state-index"):
		c.indexes.Add(1)
	default:
		c.orders.Add(1)
	}
	_ = in.Ack()
}

// 300 orders with documents of 500 kB, 150 MB in all. A publisher that begins, on a broker that has all of their topics or none, has at most a part of
// them in memory.
func TestRestartWithLargeOrders(t *testing.T) {
	testenv.Measures(t, "memory")
	t.Parallel()
	const (
		orders = 300
		most   = 140 << 20 // below 90 MB on a quiet machine; a busy one collects garbage late. With all of them it would have more than 180 MB
	)
	w := rig.New(t, rig.Options{NoStation: true, Plain: true})
	first := w.Serve("a")
	m := w.QuietMES()
	ctx := testenv.Within(t)
	var count retainedCount
	var subs []mqtt.Subscription
	for _, topic := range []string{"state-index", "order/+"} {
		filter := fmt.Sprintf("%s/%s/%s", w.TopicPrefix, rig.Scope, topic)
		subs = append(subs, mqtt.Subscription{Filter: filter, QoS: 1, RetainHandling: 2, Handle: count.take})
	}
	conn := rig.Connect(t, mqtt.Options{URL: w.Broker.URL, ClientID: "watcher"}, subs...)
	text, err := json.Marshal(strings.Repeat("x", 500_000))
	testenv.Must(t, err)
	id := func(i int) string { return fmt.Sprintf("LARGE-%03d", i) }
	for i := range orders {
		order := &isa95.JobOrder{JobOrderID: id(i), JobOrderParameters: []isa95.Parameter{{ID: "program", Value: text}}}
		if _, err := m.Client.Store(ctx, rig.Scope, order); err != nil {
			t.Fatal(err)
		}
	}
	w.Until("all orders are published", func() bool { return count.orders.Load() >= orders })
	t.Logf("the process that took them had at most %d MB", largest(t, first)>>20)
	first.Stop()

	restart := func(what string, published int64) {
		t.Helper()
		count.orders.Store(0)
		count.indexes.Store(0)
		p := w.Serve("a")
		w.Until("the state index is published", func() bool { // by the comparison, at its end
			return count.indexes.Load() > 0 && count.orders.Load() >= published // which this test hears on their own ways
		})
		had := largest(t, p)
		t.Logf("%s: %d MB, %d orders published", what, had>>20, count.orders.Load())
		if had > most {
			t.Errorf("%s: the process has had %d MB, want at most %d", what, had>>20, most>>20)
		}
		if got := count.orders.Load(); got != published {
			t.Errorf("%s: %d orders are published, want %d", what, got, published)
		}
		p.Stop()
	}
	restart("the broker has everything", 0)
	for i := range orders {
		testenv.Must(t, conn.Retain(ctx, fmt.Sprintf("%s/%s/order/%s", w.TopicPrefix, rig.Scope, id(i)), nil, 0))
	}
	restart("the broker has nothing", orders)
}

// Redis hangs, and one MES sends 600 commands of 0.9 MB. The process holds what it is allowed to, the broker keeps the rest. When Redis goes on, each command is
// answered.
func TestLargeCommandsWhileRedisHangs(t *testing.T) {
	testenv.Measures(t, "memory")
	t.Parallel()
	const (
		commands = 600
		size     = 900_000
		most     = 400 << 20 // some 250 MB on a quiet machine; a busy one collects garbage late
	)
	w := rig.New(t, rig.Options{NoStation: true, Plain: true})
	p := w.Serve("a")
	w.QuietMES()
	ctx := testenv.Within(t)
	var mu sync.Mutex
	answers := map[string]string{} // by command
	conn := rig.Connect(t, mqtt.Options{URL: w.Broker.URL, ClientID: "large"}, mqtt.Subscription{Filter: "mes/large", QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		defer in.Ack()
		reply, err := mqtt.Decode(in.Message)
		var result isa95.MethodResult
		if err == nil && len(reply.Data) > 0 {
			err = json.Unmarshal(reply.Data, &result)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		answers[reply.CausationID] = fmt.Sprintf("%d%s %s", result.ReturnStatus, reply.ErrorKind, reply.ErrorMessage)
	}})
	signal := func(s syscall.Signal) {
		t.Helper()
		testenv.Must(t, syscall.Kill(w.Redis.Server.PID(), s))
	}
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	for i := range commands {
		body := fmt.Sprintf(`{"JobOrder":{"JobOrderID":"LARGE-%03d","JobOrderParameters":[{"ID":"program","Value":"%s"}]}}`, i, strings.Repeat("x", size))
		e := cloudevent.New(isa95.Store.TypeID(), "urn:mes", string(rig.Scope), time.Now()).WithData([]byte(body), "")
		e.ID, e.Delivery.ResponseTopic = fmt.Sprintf("large-%03d", i), "mes/large"
		testenv.Must(t, conn.Publish(ctx, mqtt.Encode(fmt.Sprintf("%s/%s/commands", w.TopicPrefix, rig.Scope), e)))
	}
	some := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(answers)
	}
	w.Until("the first commands are answered while Redis hangs", func() bool { return some() > 0 })
	t.Logf("while Redis hangs: %d MB, %d answers", largest(t, p)>>20, some())
	signal(syscall.SIGCONT)
	w.Until("each command is answered", func() bool { return some() == commands })
	had := largest(t, p)
	count := map[string]int{}
	for id, answer := range answers {
		switch {
		case strings.HasPrefix(answer, "1 "):
			count["stored"]++
		case strings.Contains(answer, string(cloudevent.KindServiceUnavailable)):
			count["while Redis hung"]++
		default:
			t.Errorf("%s is answered %s", id, answer)
		}
	}
	t.Logf("%d MB, %v", had>>20, count)
	if had > most {
		t.Errorf("the process has had %d MB, want at most %d", had>>20, most>>20)
	}
}
