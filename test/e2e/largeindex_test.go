package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// While the broker refuses a state index for its size, an MES is blind for that station: /readyz, /metrics and takt check say so, and stop when it is published again.
func TestIndexBeyondTheBrokersLimit(t *testing.T) {
	long.Test(t, "stores orders until the broker refuses their index")
	t.Parallel()
	const limit = 20000
	w := rig.New(t, rig.Options{
		Mosquitto: embedded.MosquittoOptions{Config: []string{fmt.Sprintf("message_size_limit %d", limit)}},
		WorkerTTL: time.Minute, // the publisher that was refused stays the one
	})
	at := base(w.Serve("a", "--http", "127.0.0.1:0"))
	m := w.QuietMES()
	good := func(path string) (text string) {
		w.Until(path+" says yes", func() bool { // readiness has limits in seconds
			var status int
			status, text = get(t, at+path)
			return status == http.StatusOK
		})
		return text
	}
	index := w.TopicPrefix + "/" + string(rig.Scope) + "/state-index"
	const gauge = "takt_publisher_waiting "
	var ids []isa95.JobOrderID
	for blind := false; !blind; blind = strings.Contains(good("/readyz"), index) {
		if len(ids) > limit/50 {
			t.Fatalf("%d orders, and their index is not too large", len(ids))
		}
		for range 20 {
			id := isa95.JobOrderID(fmt.Sprintf("LARGE-%03d", len(ids)))
			if status, err := m.Client.Store(t.Context(), rig.Scope, &isa95.JobOrder{JobOrderID: string(id)}); err != nil {
				t.Fatalf("%s: %v %v", id, status, err)
			}
			ids = append(ids, id)
		}
	}
	if text := good("/metrics"); strings.Contains(text, gauge+"0\n") || !strings.Contains(text, gauge) {
		t.Errorf("/metrics does not show what waits:\n%s", text)
	}
	r := w.Takt("check")
	if r.Code != failed || !strings.Contains(r.Stdout, index+" is not published, so an MES sees no change of this scope: the broker refuses a message of its") || !strings.Contains(r.Stdout, "message_size_limit") {
		t.Errorf("takt check: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}

	for _, id := range ids[:len(ids)*2/3] {
		if status, err := m.Client.Cancel(t.Context(), rig.Scope, id); err != nil {
			t.Fatalf("%s: %v %v", id, status, err)
		}
	}
	w.Until("nothing is refused any more", func() bool {
		return !strings.Contains(good("/readyz"), "warnings") && strings.Contains(good("/metrics"), gauge+"0\n")
	})
	w.Check()
}
