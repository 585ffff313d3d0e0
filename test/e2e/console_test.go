package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// consoleOf is the address of the console that a process names in what it printed.
func consoleOf(t *testing.T, printed string) string {
	t.Helper()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(printed)
	if address == "" {
		t.Fatalf("no address of a console:\n%s", printed)
	}
	return address
}

// pageOf is a page of it.
func pageOf(t *testing.T, printed, path string) string {
	t.Helper()
	answer, err := http.Get(consoleOf(t, printed) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The console alone starts where neither Redis nor a broker is; in a process that serves it shows that the engine is there, and how the system is.
func TestConsoleProcesses(t *testing.T) {
	t.Parallel()
	nowhere := func() string { return fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "127.0.0.1")) }
	alone := rig.StartCommand(t, rig.Command{Dir: t.TempDir(), Args: []string{"console", "--listen", "127.0.0.1:0", "--redis", "redis://" + nowhere(), "--mqtt", "mqtt://" + nowhere()}})
	alone.AwaitThat("prints its address", func(printed, _ string) bool { return strings.Contains(printed, "http://") })
	testenv.Eventually(t, "it says that both are down", func() bool {
		text := pageOf(t, alone.Stdout(), "")
		return strings.Contains(text, "<strong>Redis does not answer") && strings.Contains(text, "<strong>Broker does not answer")
	})
	alone.Stop()

	srv, broker := testenv.Redis(t), testenv.Mosquitto(t)
	served := rig.StartCommand(t, rig.Command{Dir: t.TempDir(), Args: []string{"serve", "--instance", "line-1", "--console", "127.0.0.1:0", "--redis", srv.URL, "--mqtt", broker.URL, "--prefix", srv.Prefix(t)}})
	served.AwaitThat("is ready", func(_, log string) bool {
		return strings.Contains(log, "ready: commands are taken") && strings.Contains(log, "http://")
	})
	testenv.Eventually(t, "it shows the engine", func() bool {
		text := pageOf(t, served.Stderr(), "")
		return strings.Contains(text, "line-1") && strings.Contains(text, `Redis <span class="only-heard">answers`) && strings.Contains(text, `Broker <span class="only-heard">answers`)
	})
	answer, err := http.PostForm(consoleOf(t, served.Stderr())+"api/v1/system/check", nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v %+v", err, answer)
	}
	answer.Body.Close()
	testenv.Eventually(t, "it shows what takt doctor, takt check and takt config say", func() bool {
		text := pageOf(t, served.Stderr(), "system")
		return strings.Contains(text, "eviction") && strings.Contains(text, "broker: message size") && strings.Contains(text, "nothing found</span>") &&
			strings.Contains(text, "<td>flag</td>") && strings.Contains(text, "intake-bytes")
	})
	served.Stop()
}

// An address that other machines reach is refused before anything starts.
func TestConsoleListensHereOnly(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"console", "--listen", "0.0.0.0:0"}, {"serve", "--console", ":::0"}, {"serve", "--console", "[::]:0"}} {
		p := rig.StartCommand(t, rig.Command{Dir: t.TempDir(), Args: append(args, "--redis", "redis://127.0.0.1:1", "--mqtt", "mqtt://127.0.0.1:1")})
		p.AwaitThat("refuses", func(_, said string) bool {
			return strings.Contains(said, "must be of this machine") && strings.Contains(said, "ssh -L") || strings.Contains(said, "must be host:port")
		})
		if code := p.Exit(); code != 2 {
			t.Errorf("%v: exit status %d, want 2", args, code)
		}
	}
}
