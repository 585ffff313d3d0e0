package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

// benchPlant is a console, without a broker, at 10,000 orders and a day of samples.
func benchPlant(b *testing.B) (url string, store func(i int)) {
	b.Helper()
	const orders, writers = 10_000, 16
	srv := testenv.Redis(b)
	prefix := srv.Prefix(b)
	open := func(ctx context.Context, o jobstore.Options) (*jobstore.Store, error) {
		o.URL, o.Prefix, o.Log = srv.URL, prefix, quiet
		return jobstore.Open(ctx, o)
	}
	db, err := open(b.Context(), jobstore.Options{Instance: "plant"})
	testenv.Must(b, err)
	b.Cleanup(db.Close)
	store = func(i int) {
		order := &isa95.JobOrder{JobOrderID: fmt.Sprintf("ORDER-OF-THE-ERP-%06d", i)}
		snap, err := db.Load(b.Context(), jobstore.Query{JobOrderID: isa95.JobOrderID(order.JobOrderID), Scope: isa95.Scope(fmt.Sprintf("cell-%02d", i%40))})
		testenv.Must(b, err)
		testenv.Must(b, db.Commit(b.Context(), snap, jobstore.Change{Transition: &jobstore.Transition{Method: isa95.Store, Order: order, State: ready}, Source: "urn:mes", Now: db.Now()}))
	}
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := w; i < orders; i += writers {
				store(i)
			}
		})
	}
	wait.Wait()
	for range jobstore.KeptSamples {
		testenv.Must(b, db.AddSample(b.Context(), []byte(`{"by":"a","engines":1,"ended":3,"tasks":{"done":7}}`)))
	}
	client, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: fmt.Sprintf("mqtt://127.0.0.1:%d", testenv.FreePort(b, "127.0.0.1")), ClientID: "console", Log: quiet}, Log: quiet})
	testenv.Must(b, err)
	c, err := New(Options{Listen: "127.0.0.1:0", MES: client, Log: quiet, Open: func(ctx context.Context) (*jobstore.Store, error) {
		return open(ctx, jobstore.Options{Instance: "console", Looks: true})
	}})
	testenv.Must(b, err)
	testenv.Run(b, c.Run)
	b.Cleanup(http.DefaultClient.CloseIdleConnections)
	testenv.Eventually(b, "all is shown", func() bool { return len(c.book.glance().orders) == orders && len(c.day.Samples()) > 0 })
	return strings.TrimSuffix(c.URL(), "/"), store
}

// p95 reports what 95 of 100 were not above.
func p95(b *testing.B, all []time.Duration) {
	slices.Sort(all)
	b.ReportMetric(float64(all[(len(all)-1)*95/100].Microseconds())/1000, "p95-ms")
}

// BenchmarkPage is from the request of a page to its last byte, at 10,000 orders.
func BenchmarkPage(b *testing.B) {
	url, _ := benchPlant(b)
	for name, path := range map[string]string{"overview": "/", "orders": "/orders", "scope": "/orders?scope=cell-07&sort=since", "order": "/orders/ORDER-OF-THE-ERP-000007"} {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				began := time.Now()
				answer, err := http.Get(url + path)
				testenv.Must(b, err)
				_, err = io.Copy(io.Discard, answer.Body)
				testenv.Must(b, err)
				answer.Body.Close()
				all = append(all, time.Since(began))
			}
			p95(b, all)
		})
	}
}

// BenchmarkCommitToEvent is from the commit of a change to the event that has a browser read its page again, at 10,000 orders.
func BenchmarkCommitToEvent(b *testing.B) {
	url, store := benchPlant(b)
	answer, err := http.Get(url + "/events")
	testenv.Must(b, err)
	defer answer.Body.Close()
	events := make(chan struct{}, 100)
	go func() {
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "id: ") {
				events <- struct{}{}
			}
		}
	}()
	var all []time.Duration
	for i := 20_000; b.Loop(); i++ {
		for len(events) > 0 { // of a server, or of a sample
			<-events
		}
		store(i)
		began := time.Now()
		<-events
		all = append(all, time.Since(began))
	}
	p95(b, all)
}
