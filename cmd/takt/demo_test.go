package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// A result that the MES forgets is a lost one, and the demo fails.
func TestDemoSeesALostResult(t *testing.T) {
	long.Test(t, "waits until a demo gives up")
	t.Parallel()
	const forgotten = "JO-002"
	cell := rig.Cell(t, 8, "5ms..20ms")
	testenv.LongEnough(t, 8*time.Second, func(limit time.Duration) bool {
		var out, errOut bytes.Buffer
		err := execute([]string{"demo", "--example", cell, "--json", "--outage", "100ms", "--timeout", limit.String(), "--data", t.TempDir()}, nil, &out, &errOut,
			func(c *cli, a *app) error {
				c.Demo.drop = func(r isa95.JobResponse) bool { return r.JobOrderID == forgotten }
				return a.kong.Run(a)
			})
		var exit *exitError
		if !errors.As(err, &exit) || exit.Code != exitFailed {
			t.Errorf("%v, want exit status %d\n%s", err, exitFailed, errOut.String())
			return false
		}
		var r report
		if err := json.Unmarshal([]byte(lastLine(out.String())), &r); err != nil || r.Cleared < 8 {
			t.Logf("within %v: %v %+v\n%s", limit, err, r, errOut.String())
			return false
		}
		if r.Orders != 8 || r.Results != 7 || r.Lost != 1 || r.Cleared != 8 {
			t.Errorf("%+v", r)
		}
		return true
	})
}

// edit replaces text in a file of an example, and fails if the file does not have it.
func edit(t *testing.T, file, old, new string, n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not have %q", file, old)
	}
	rig.Write(t, file, strings.Replace(string(text), old, new, n))
}

// runDemo runs takt demo and reads its report.
func runDemo(t *testing.T, args ...string) (code int, r report, errOut string) {
	t.Helper()
	var out, said bytes.Buffer
	code = run(append([]string{"demo", "--json", "--data", t.TempDir()}, args...), nil, &out, &said)
	if err := json.Unmarshal([]byte(lastLine(out.String())), &r); err != nil {
		t.Fatalf("no report: %v\n%s", err, said.String())
	}
	return code, r, said.String()
}

// The demo names each refusal when it happens, and waits for accepted orders alone: with none it ends at once, long before
// the outage and the limit are over.
func TestDemoOrdersRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refused int
		args    []string
	}{
		"all":  {4, []string{"--outage", "1h", "--timeout", "1h"}},
		"half": {2, []string{"--outage", "100ms", "--timeout", "1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := rig.Cell(t, 4, "5ms..20ms")
			edit(t, filepath.Join(dir, "orders.json"), "press-1", "press-9", test.refused)
			code, r, errOut := runDemo(t, append(test.args, "--example", dir)...)
			if code != exitFailed {
				t.Errorf("exit status %d, want %d", code, exitFailed)
			}
			accepted := 4 - test.refused
			if r.Refused != test.refused || r.Orders != accepted || r.Results != accepted || r.Cleared != accepted || r.Lost != 0 || len(r.Violations) > 0 {
				t.Errorf("%+v", r)
			}
			for i := range 4 {
				want, reason := 0, fmt.Sprintf("JO-%03d: mes: StoreAndStart refused", i+1)
				if i%2 == 1 {
					reason = fmt.Sprintf("JO-%03d: mes: Store refused", i+1)
				}
				if i < test.refused {
					want = 1
				}
				if got := strings.Count(errOut, reason); got != want {
					t.Errorf("%q is there %d times, want %d\n%s", reason, got, want, errOut)
				}
			}
			if got := strings.Count(errOut, `"press-9"`); got != test.refused {
				t.Errorf("the reason is there %d times, want %d\n%s", got, test.refused, errOut)
			}
			if want := fmt.Sprintf("takt: refused %d of 4 job orders", test.refused); !strings.Contains(errOut, want) {
				t.Errorf("no %q in\n%s", want, errOut)
			}
		})
	}
}

// A demo that gives up names the orders that are outstanding and what they wait for. The report is printed all the same.
func TestDemoGivesUp(t *testing.T) {
	long.Test(t, "waits until a demo gives up")
	t.Parallel()
	dir := rig.Cell(t, 2, "5ms..20ms")
	edit(t, filepath.Join(dir, "equipment.yaml"), "press.v1\n    takes: 5ms..20ms", "press.v1\n    takes: 10h", 1)
	edit(t, filepath.Join(dir, "recipe.json"), `press.v1", "TimeoutSeconds": 12`, `press.v1", "TimeoutSeconds": 86400`, 1)
	testenv.LongEnough(t, 8*time.Second, func(limit time.Duration) bool {
		var out, said bytes.Buffer
		code := run([]string{"demo", "--json", "--data", t.TempDir(), "--example", dir, "--timeout", limit.String(), "--outage", "10ms"}, nil, &out, &said)
		errOut := said.String()
		if strings.Count(errOut, " is not answered (com.acme.test.press.v1, attempt 1)") < 2 { // not both have come to the press
			t.Logf("within %v: %s", limit, errOut)
			return false
		}
		var r report
		if err := json.Unmarshal([]byte(lastLine(out.String())), &r); err != nil || code != exitFailed || r.Orders != 2 || r.Lost != 2 || r.Store == "" {
			t.Errorf("exit status %d, %v, %+v", code, err, r)
		}
		for _, want := range []string{fmt.Sprintf("gave up after %v; outstanding are 2 job orders\n", limit), "  JO-001: Running, ", "  JO-002: Running, "} {
			if !strings.Contains(errOut, want) {
				t.Errorf("no %q in\n%s", want, errOut)
			}
		}
		return true
	})
}

// What can be told before anything is started is a mistake in the command line.
func TestDemoUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"demo --no-serve": "--redis URL",
		"demo --no-station --redis redis://x --mqtt mqtt://y": "--station-log FILE",
		"demo --example /nowhere/at/all":                      "orders.json",
		"demo --mqtt-listen here":                             "must be host:port",
		"demo --mqtt-listen 127.0.0.1:99999":                  "0 (a free one) to 65535",
		"demo --intake-bytes 1000":                            "--intake-bytes is 1000: must be at least 1048576",
		"demo --slots 0":                                      "--slots is 0: must be 1 to 4096",
		"demo --worker-ttl 1ms":                               "--worker-ttl is 1ms: must be at least 100ms",
		"serve":                                               "takt dev",
		"serve --redis redis://x --mqtt mqtt://y --roles receiver,all": `--roles has "all"`,
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
	p.say("MES away")
	p.count("results 12")
	p.count("results 40")
	testenv.Eventually(t, "it says results 40", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(out.String(), "results 40")
	})
	p.end()
}
