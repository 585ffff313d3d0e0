package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// A result that the MES forgets is a lost one, and the demo fails.
func TestDemoSeesALostResult(t *testing.T) {
	t.Parallel()
	const forgotten = "JO-002"
	var out, errOut bytes.Buffer
	err := execute([]string{"demo", "--example", rig.Cell(t, 8, "5ms..20ms"), "--json", "--outage", "100ms", "--timeout", "10s", "--data", t.TempDir()}, nil, &out, &errOut,
		func(c *cli, a *app) error {
			c.Demo.drop = func(r isa95.JobResponse) bool { return r.JobOrderID == forgotten }
			return a.kong.Run(a)
		})
	var exit *exitError
	if !errors.As(err, &exit) || exit.Code != exitFailed {
		t.Fatalf("%v, want exit status %d\n%s", err, exitFailed, errOut.String())
	}
	var r report
	if err := json.Unmarshal([]byte(lastLine(out.String())), &r); err != nil {
		t.Fatal(err)
	}
	if r.Orders != 8 || r.Results != 7 || r.Lost != 1 || r.Cleared != 8 {
		t.Errorf("%+v", r)
	}
}

// What can be told before anything is started is a mistake in the command line.
func TestDemoUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"demo --no-serve":                               "--redis URL",
		"demo --no-station --redis x --mqtt y":          "--station-log FILE",
		"demo --example /nowhere/at/all":                "orders.json",
		"demo --mqtt-listen here":                       "must be host:port",
		"demo --mqtt-listen 127.0.0.1:99999":            "0 (a free one) to 65535",
		"demo --slots 0":                                "--slots is 0: must be 1 to 4096",
		"demo --worker-ttl 1ms":                         "--worker-ttl is 1ms: must be at least 100ms",
		"serve":                                         "takt dev",
		"serve --redis x --mqtt y --roles receiver,all": `--roles has "all"`,
	} {
		var out, errOut bytes.Buffer
		if code := run(strings.Fields(args), nil, &out, &errOut); code != exitUsage || !strings.Contains(errOut.String(), want) {
			t.Errorf("takt %s: exit status %d, said %q, want %d and %q", args, code, errOut.String(), exitUsage, want)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// What comes too soon after a line to be shown at once is shown a little later: the last line of a demo that stands still must say
// where it stands.
func TestProgressCatchesUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out)
	p.set("MES away")
	p.count("results 12")
	p.count("results 40")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		text := out.String()
		p.mu.Unlock()
		if strings.Contains(text, "results 40") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it says\n%s", text)
		}
	}
	p.end()
}
