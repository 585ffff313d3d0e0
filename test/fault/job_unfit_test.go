package fault_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/test/rig"
)

// Fault 31: a broker without retained messages, so that no MES would ever find a result. The log, the readiness and takt doctor name it.
func TestFault31UnfitBroker(t *testing.T) {
	t.Parallel()
	w := rig.New(t, rig.Options{Mosquitto: embedded.MosquittoOptions{Config: []string{"retain_available false"}}, NoStation: true})
	p := w.BeginServe("a", "--http", "127.0.0.1:0")
	p.Await("the broker is unfit for Takt")
	if n := errorLines(p, "retained messages"); n != 1 {
		t.Errorf("%d lines of level ERROR name it", n)
	}
	p.Await("metrics and health are served")
	at := regexp.MustCompile(`health are served" address=(\S+)`).FindStringSubmatch(p.Stderr())
	r, err := http.Get("http://" + at[1] + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "retained messages: not available") {
		t.Errorf("/readyz: %d %v\n%s", r.StatusCode, err, text)
	}
	if r := w.Takt("doctor"); r.Code == 0 || !strings.Contains(r.Stdout, "retained messages") {
		t.Errorf("takt doctor: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	stillUp(t, p)
}
