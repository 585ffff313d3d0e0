package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// A shell command handles the events of a type: the body is its input, what it prints is the reply, exit status 65 refuses, and a repeated event is not handled again.
func TestProcessorRun(t *testing.T) {
	t.Parallel()
	redis, broker := testenv.Redis(t), testenv.Mosquitto(t)
	dir := t.TempDir()
	const command = `echo "$TAKT_EVENT_ID $TAKT_EVENT_SUBJECT" >>log; read body; case "$body" in *bad*) echo "no such lot" >&2; exit 65;; *broken*) exit 1;; *) echo "$body";; esac`
	p := rig.Start(t, "processor", "run", "--type", "com.example.Lot", "--name", "lots", "--exec", "cd "+dir+"; "+command,
		"--redis", redis.URL, "--mqtt", broker.URL, "--prefix", redis.Prefix(t), "--data", filepath.Join(dir, "data"))
	p.Await("processor is up")
	at := []string{"--mqtt", broker.URL, "--data", filepath.Join(dir, "data")}
	for body, want := range map[string]struct {
		code int
		text string
	}{
		`{"lot":"L1"}`: {ok, `{"lot":"L1"}`}, `"bad"`: {refused, "PAYLOAD_INVALID: no such lot"}, `"broken"`: {refused, "INTERNAL_LOGIC_ERROR: the program failed; see its log"},
	} {
		for range 2 {
			args := append([]string{"processor", "send", "com.example.Lot", body, "--name", "lots", "--scope", "press-7", "--id", "of " + strings.Trim(body, `"{}`)}, at...)
			if r := rig.Run(t, args...); r.Code != want.code || !strings.Contains(r.Stdout+r.Stderr, want.text) {
				t.Errorf("%s: exit status %d, %s%s", body, r.Code, r.Stdout, r.Stderr)
			}
		}
	}
	if n := strings.Count(readFile(filepath.Join(dir, "log")), "press-7"); n != 5 { // what was carried out is not carried out again
		t.Errorf("the command ran %d times, want 5", n)
	}
	if r := rig.Run(t, "processor", "run", "--type", "a", "--type", "a", "--exec", "cat"); r.Code != usage || !strings.Contains(r.Stderr, "named twice") {
		t.Errorf("exit status %d: %s", r.Code, r.Stderr)
	}
}
