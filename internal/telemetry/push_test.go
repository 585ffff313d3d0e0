package telemetry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/otlp"
)

func pushTo(endpoint string) Collector {
	return Collector{Endpoint: endpoint, Service: "takt-test", Version: "v1", Instance: "host:1"}
}

// Counters, histograms and gauges reach the collector, at the latest when the process ends.
func TestPush(t *testing.T) {
	c := otlp.NewCollector(t)
	m := NewMetrics("v1")
	m.Command("Store", "NoError", 1, time.Second)
	m.Command("Start", "NoError", 1, time.Second)
	m.Gauge("takt_level", "A level.", func() float64 { return 7 })
	push, err := NewPush(t.Context(), m, pushTo(c.URL))
	testenv.Must(t, err)
	push.Close()
	got := c.Metrics()
	for name, want := range map[string]float64{"takt_commands_total": 2, "takt_command_seconds": 2, "takt_level": 7} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v: %v", name, got[name], want, got)
		}
	}
	(*Push)(nil).Close()
}

// A collector that refuses is told of in the log.
func TestPushRefused(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such tenant", http.StatusForbidden) }))
	defer srv.Close()
	log := new(testenv.Log)
	to := pushTo(srv.URL)
	var err error
	to.Log, err = NewLogger(log, "text", "info")
	testenv.Must(t, err)
	push, err := NewPush(t.Context(), NewMetrics("v1"), to)
	testenv.Must(t, err)
	push.Close()
	if text := log.String(); !strings.Contains(text, "metrics are not sent") || !strings.Contains(text, "no such tenant") {
		t.Errorf("log: %s", text)
	}
}

func TestPushOptions(t *testing.T) {
	for endpoint, want := range map[string]string{
		"ftp://h": "metrics endpoint", "http://u:hunter2@h": "must not hold a user", "h:x:y": "metrics endpoint",
	} {
		if _, err := NewPush(t.Context(), NewMetrics("v1"), pushTo(endpoint)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
