package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLogHidesSecrets(t *testing.T) {
	u, err := url.Parse("mqtt://plant:hunter2@broker:1883")
	testenv.Must(t, err)
	for _, format := range []string{"text", "json", ""} {
		var out bytes.Buffer
		log, err := NewLogger(&out, format, "debug")
		testenv.Must(t, err)
		log.Info("m", "password", "hunter2", "Redis_Password", []byte("hunter2"), "client_secret", 5, "url", "redis://u:hunter2@h:1/0",
			"slash", "redis://u:hunter2/@hunter2@h", "u", u, "err", errors.New(`dial "redis://:hunter2@h": refused`), "key", "takt:joborder:1", "n", 7,
			slog.Group("g", "mqtt_password", "hunter2", "topic", "takt/a"))
		log.With("authorization", "hunter2").Debug("n")
		text := out.String()
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", format, text)
		}
		for _, kept := range []string{"takt:joborder:1", "7", "takt/a", "redis://u:***@h:1/0", "plant", "refused"} {
			if !strings.Contains(text, kept) {
				t.Errorf("%s: %q is missing in %s", format, kept, text)
			}
		}
	}
}

func TestLoggerOptions(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "warn")
	testenv.Must(t, err)
	log.Info("quiet")
	log.Warn("loud")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "loud" {
		t.Errorf("%s: %v", out.String(), err)
	}
	for _, bad := range [][2]string{{"xml", "info"}, {"text", "chatty"}} {
		if _, err := NewLogger(io.Discard, bad[0], bad[1]); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// serve runs a server on a free port until the test ends.
func serve(t *testing.T, s *Server) (base string) {
	t.Helper()
	addr := make(chan net.Addr, 1)
	s.listening = func(a net.Addr) { addr <- a }
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	select {
	case a := <-addr:
		return "http://" + a.String()
	case err := <-end:
		end <- nil
		t.Fatal(err)
	}
	panic("unreachable")
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	testenv.Must(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	testenv.Must(t, err)
	return r.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	m := NewMetrics("v1")
	m.Command("Store", "1", 3, 3*time.Millisecond)
	m.Command("", "PAYLOAD_INVALID", 1, time.Millisecond)
	m.Stream("engine", "handled", 5)
	m.Stream("engine", "dead", 0)
	m.Recipe("start", "OK")
	m.Gauge("takt_test", "A test.", func() float64 { return 42 })
	away := true
	var warning atomic.Bool
	s := &Server{Addr: ":0", Metrics: m, Info: map[string]any{"durable": false}, Ready: map[string]func(context.Context) error{
		"redis": func(context.Context) error {
			if away {
				return errors.New("redis://u:hunter2@h is away")
			}
			return nil
		},
		"mqtt": func(context.Context) error { return nil },
	}, Warn: map[string]func() string{
		"publisher": func() string {
			if warning.Load() {
				return "the broker refuses a topic"
			}
			return ""
		},
	}}
	base := serve(t, s)
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Errorf("served at %s", base)
	}
	code, text := get(t, base+"/metrics")
	for _, want := range []string{
		`takt_commands_total{method="Store",status="1"} 1`, `takt_commands_total{method="unknown",status="PAYLOAD_INVALID"} 1`,
		`takt_command_seconds_bucket{method="Store",le="0.005"} 1`, `takt_commit_conflicts_total 2`,
		`takt_stream_entries_total{group="engine",outcome="handled"} 5`, `takt_recipe_operations_total{operation="start",result="OK"} 1`,
		`takt_build_info{version="v1"} 1`, `takt_test 42`, `go_goroutines`,
	} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("/metrics answers %d without %s", code, want)
		}
	}
	if strings.Contains(text, `outcome="dead"`) {
		t.Error("nothing was counted as dead")
	}
	if code, text := get(t, base+"/livez"); code != http.StatusOK || !strings.Contains(text, `"durable":false`) || !strings.Contains(text, `"status":"ok"`) {
		t.Errorf("/livez: %d %s", code, text)
	}
	if code, text := get(t, base+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, `"redis"`) || strings.Contains(text, "mqtt") || strings.Contains(text, "hunter2") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	away = false
	if code, text := get(t, base+"/readyz"); code != http.StatusOK || !strings.Contains(text, `"ready"`) || strings.Contains(text, "warnings") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	warning.Store(true)
	if code, text := get(t, base+"/readyz"); code != http.StatusOK || !strings.Contains(text, `"warnings":{"publisher":"the broker refuses a topic"}`) {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if code, _ := get(t, base+"/other"); code != http.StatusNotFound {
		t.Errorf("/other: %d", code)
	}
}

func TestNilMetricsCountNothing(t *testing.T) {
	var m *Metrics
	m.Command("Store", "1", 2, time.Second)
	m.Conflicts(1)
	m.Stream("g", "handled", 1)
	m.Recipe("start", "OK")
	m.Gauge("takt_x", "", func() float64 { return 0 })
}

func TestServerAddress(t *testing.T) {
	base := serve(t, &Server{Addr: "localhost:0"})
	if code, _ := get(t, base+"/metrics"); code != http.StatusNotFound {
		t.Errorf("/metrics without metrics: %d", code)
	}
	for addr, says := range map[string]string{"9464": "host:port", strings.TrimPrefix(base, "http://"): "choose another address"} {
		if err := (&Server{Addr: addr}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
