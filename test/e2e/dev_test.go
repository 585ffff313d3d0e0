package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/test/rig"
)

// blocks are the commands of a page: what stands in its sh blocks, in order.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Root(t), page))
	testenv.Must(t, err)
	var all []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// docs/dev.md as it stands, typed into a shell line by line, but for the port: an order by mosquitto_pub alone against
// takt dev. Then takt dev stops when it is told to, and goes on from its data.
func TestDevPage(t *testing.T) {
	t.Parallel()
	page := blocks(t, "docs/dev.md")
	if len(page) != 4 {
		t.Fatalf("docs/dev.md has %d blocks of commands, this test knows 4: listen, send, take, and a file", len(page))
	}
	dir := t.TempDir()
	dev, port := startDev(t, dir)
	for i := range page {
		page[i] = strings.ReplaceAll(page[i], "-p 1883", "-p "+port)
	}
	listen, send, take, byFile := page[0], page[1], page[2], page[3]

	sh := rig.StartCommand(t, rig.Command{
		Path: "/bin/bash", Dir: dir, Typed: true,
		Env: []string{"PATH=" + filepath.Dir(rig.Binary(t)) + ":" + os.Getenv("PATH"), "LC_ALL=C"},
	})
	sh.Type(listen)
	untilHeard(t, sh, "probe", func(n int) string {
		return fmt.Sprintf("mosquitto_pub -V 5 -h 127.0.0.1 -p %s -t mes/replies -m probe-%d\n", port, n)
	})
	untilHeard(t, sh, "DRAFT", func(n int) string {
		return fmt.Sprintf(`echo '{"JobOrderID":"DRAFT-%d"}' | takt job store - --scope cell-07`+"\n", n)
	})

	sh.Type(send)
	sh.Await(`{"ReturnStatus":1}`)
	for _, change := range []string{"StoreAndStart", "Run", "End", "ResultUpdate"} {
		line := regexp.MustCompile(`(?m)^\S+ +` + change + ` +cell-07 +MY-1$`)
		sh.AwaitThat("prints "+change, func(out, _ string) bool { return line.MatchString(out) })
	}
	sh.Type(send) // the same command again
	sh.AwaitThat("prints the reply again", func(out, _ string) bool { return strings.Count(out, `{"ReturnStatus":1}`) >= 2 })

	sh.Type(take)
	sh.Await("MY-1 cleared")
	if out := sh.Stdout(); !strings.Contains(out, `"JobOrderID":"MY-1"`) || !strings.Contains(out, "MY-1  Ended_Completed  at cell-07, priority 10") {
		t.Errorf("no result, or no order:\n%s", out)
	}

	console := regexp.MustCompile(`console +(http://127\.0\.0\.1:\d+/)`).FindStringSubmatch(dev.Stdout())
	if console == nil {
		t.Fatalf("takt dev does not say where its console is:\n%s", dev.Stdout())
	}
	answer, err := http.Get(console[1] + "orders/MY-1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(text), "EndState") || !strings.Contains(string(text), `class="takt-chart"`) {
		t.Errorf("the console does not show the order that was cleared: %v\n%s", err, text)
	}

	sh.Type(byFile)
	sh.Await("MY-2 stored and started")
	sh.AwaitThat("prints the result", func(out, _ string) bool {
		return regexp.MustCompile(`(?m)^Ended_Completed +cell-07 +MY-2 `).MatchString(out)
	})
	sh.Type("kill %1 %2; exit\n")
	sh.Exit()

	dev.Stop()
	again, _ := startDev(t, dir)
	r := rig.RunCommand(t, rig.Command{Dir: dir, Args: []string{"job", "list", "--json"}})
	if r.Code != 0 || !strings.Contains(r.Stdout, `"id":"DRAFT-0"`) {
		t.Errorf("after a restart takt dev has\n%s%s", r.Stdout, r.Stderr)
	}
	again.Stop()
}

// startDev runs takt dev in dir as the page says, but on a free port in place of 1883.
func startDev(t *testing.T, dir string, flags ...string) (dev *rig.Process, port string) {
	t.Helper()
	dev = rig.StartCommand(t, rig.Command{Dir: dir, Args: append([]string{"dev", "--mqtt-listen", "127.0.0.1:0"}, flags...)})
	dev.Await("Stop:")
	broker := regexp.MustCompile(`broker +\S+ +mqtt://127\.0\.0\.1:(\d+)`).FindStringSubmatch(dev.Stdout())
	if broker == nil {
		t.Fatalf("takt dev does not say where its broker is:\n%s", dev.Stdout())
	}
	return dev, broker[1]
}

// untilHeard types commands until what listens in the background prints a line with text: it has begun to listen by then.
func untilHeard(t *testing.T, sh *rig.Process, text string, command func(n int) string) {
	t.Helper()
	heard := regexp.MustCompile(`(?m)^(mes/replies|\d{4}-\S+) .*` + text)
	n := 0
	testenv.Eventually(t, "the shell prints "+text, func() bool {
		if heard.MatchString(sh.Stdout()) {
			return true
		}
		done := fmt.Sprintf("typed-%s-%d", text, n)
		sh.Type(command(n) + "echo " + done + "\n")
		sh.Await(done)
		n++
		return false
	})
}

// takt dev with nothing installed: the same, but in memory, which it says.
func TestDevInProcess(t *testing.T) {
	long.Test(t, "runs a whole takt dev")
	t.Parallel()
	dir := t.TempDir()
	dev, _ := startDev(t, dir, "--in-process", "--prefix", "{dev}")
	if !strings.Contains(dev.Stdout(), "store    miniredis") || !strings.Contains(dev.Stdout(), "broker   mochi") || !strings.Contains(dev.Stdout(), "forgets its retained topics") ||
		!strings.Contains(dev.Stdout(), "may lose acknowledged messages") || !strings.Contains(dev.Stderr(), "all is lost when it ends") {
		t.Errorf("%s%s", dev.Stdout(), dev.Stderr())
	}
	in := func(args ...string) rig.Result {
		return rig.RunCommand(t, rig.Command{Dir: dir, Args: append(args, "--prefix", "{dev}")})
	}
	rig.Write(t, filepath.Join(dir, "order.json"), `{"JobOrderID":"MY-1","JobOrderParameters":[{"ID":"n","Value":12345678901234567890.10}]}`)
	if r := in("job", "store", "order.json", "--scope", "cell-07"); r.Code != 0 {
		t.Fatalf("exit status %d: %s", r.Code, r.Stderr)
	}
	r := in("job", "show", "MY-1", "--json")
	var shown struct{ State string }
	if err := json.Unmarshal([]byte(r.Stdout), &shown); err != nil || shown.State != "NotAllowedToStart_Ready" || !strings.Contains(r.Stdout, "12345678901234567890.10") {
		t.Errorf("%s%s %v", r.Stdout, r.Stderr, err)
	}
	if r := in("check"); r.Code != 0 {
		t.Errorf("exit status %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	dev.Stop()
	if r := in("job", "list"); r.Code != usage { // nobody is there, and nobody is named
		t.Errorf("exit status %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// No other user of the machine reaches the store of takt dev: it is a socket for this user alone, or, where the folder does not do for one, asks for a password.
func TestDevStoreIsPrivate(t *testing.T) {
	long.Test(t, "runs a whole takt dev three times")
	t.Parallel()
	url := regexp.MustCompile(`store    (\S+)  (\S+)`)
	for name, c := range map[string]struct {
		folder string
		flags  []string
		store  string
	}{
		"socket":        {"data", nil, "unix://"},
		"a long folder": {strings.Repeat("long", 30), nil, "redis://:***@127.0.0.1:"},
		"in-process":    {"data", []string{"--in-process"}, "redis://:***@127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			data := filepath.Join(dir, c.folder)
			dev, _ := startDev(t, dir, append(c.flags, "--data", data)...)
			m := url.FindStringSubmatch(dev.Stdout())
			if m == nil || !strings.HasPrefix(m[2], c.store) {
				t.Fatalf("want a store at %s...:\n%s", c.store, dev.Stdout())
			}
			if path, socket := strings.CutPrefix(m[2], "unix://"); socket {
				info, err := os.Stat(path)
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
				}
				if r := rig.Run(t, "task", "list", "--redis", m[2], "--data", dir); r.Code != 0 {
					t.Errorf("with the URL that it prints: exit status %d: %s", r.Code, r.Stderr)
				}
			} else if r := rig.Run(t, "task", "list", "--redis", strings.Replace(m[2], ":***@", "", 1), "--data", dir); r.Code != noAnswer || !strings.Contains(r.Stderr, "password") {
				t.Errorf("without the password: exit status %d: %s", r.Code, r.Stderr)
			}
			if r := rig.Run(t, "task", "list", "--data", data); r.Code != 0 {
				t.Errorf("by the folder: exit status %d: %s", r.Code, r.Stderr)
			}
		})
	}
}
