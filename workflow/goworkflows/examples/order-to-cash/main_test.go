package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// stopAt is a variable of the environment of a worker: what it shall do last. It stands still there, after the effect and before the answer, until it is killed.
const stopAt = "ORDER_TO_CASH_STOP_AT"

// TestMain makes a worker of the test's program when it is started as one.
func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] == "worker" {
		if err := command(context.Background(), os.Args[1:], standing{os.Stdout}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// standing stands still at the word that the environment says.
type standing struct{ io.Writer }

func (s standing) Write(text []byte) (int, error) {
	n, err := s.Writer.Write(text)
	if at := os.Getenv(stopAt); at != "" && at == strings.TrimSpace(string(text)) {
		fmt.Fprintln(s.Writer, "stands at", at)
		select {}
	}
	return n, err
}

// The whole program, on servers of the user and on those inside takt: the day goes as expected, and prints what the README says.
func TestEverything(t *testing.T) {
	for name, where := range map[string]func(*testing.T) settings{
		"servers":    onServers,
		"in process": func(*testing.T) settings { return settings{prefix: "takt", inProcess: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := where(t)
			s.data = t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var out bytes.Buffer
			if err := everything(ctx, s, false, &out); err != nil {
				t.Fatalf("%v, after\n%s", err, &out)
			}
			for _, want := range shown(t) {
				if !strings.Contains(plain(out.String()), plain(want)) {
					t.Errorf("it does not print %q, as the README says, but\n%s", want, &out)
				}
			}
		})
	}
}

func onServers(t *testing.T) settings {
	redis := testenv.Redis(t)
	return settings{redis: redis.URL, mqtt: testenv.Mosquitto(t).URL, prefix: redis.Prefix(t)}
}

// shown are the lines that the README shows of what the program prints.
func shown(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```text\n")
	block, _, closed := strings.Cut(after, "```\n")
	if !found || !closed {
		t.Fatal("README.md has no block of text")
	}
	for line := range strings.Lines(block) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// plain is text without the times.
func plain(text string) string {
	return regexp.MustCompile(`\d+\.\d\d s`).ReplaceAllString(text, "TIME")
}

// Workers are killed with kill -9 wherever an effect is done and its answer is not known yet. What was done is asked for again, and happens once.
func TestKilled(t *testing.T) {
	s := onServers(t)
	s.data = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p, err := startPlant(ctx, s)
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.open(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := day{plant: p, b: b, out: io.Discard, next: 1}
	for _, c := range []struct {
		order     Order
		delivered bool
		points    []string
	}{
		{d.order("ada", usual, "cover"), true, []string{"credit SO-1", "post SO-1.1.1", "signal SO-1.1.1", "shipment SO-1", "invoice SO-1"}},
		{d.order("eve", usual, "prototype", "housing"), false, []string{"abort SO-2.2.1", "release SO-2", "apology SO-2"}},
	} {
		i, err := place(p.ctx, b, c.order)
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range c.points {
			if err := p.hire(stopAt + "=" + point); err != nil {
				t.Fatal(err)
			}
			if err := p.diary.await(p.ctx, "stands at "+point); err != nil {
				t.Fatalf("%s: %v\n%s", point, err, strings.Join(p.diary.all(""), "\n"))
			}
			if err := p.dismiss(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.hire(); err != nil {
			t.Fatal(err)
		}
		end, err := goworkflows.Result[Outcome](p.ctx, b, i)
		if err != nil || end.Delivered != c.delivered {
			t.Errorf("%s: %+v, %v", c.order.Number, end, err)
		}
		if err := p.dismiss(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		for _, point := range c.points {
			if n := times(p.diary.all(""), point); n < 2 {
				t.Errorf("%s: done %d times by the workers, the kill came in vain", point, n)
			}
		}
		var story bytes.Buffer
		if err := account(p.ctx, &story, b, c.order); err != nil {
			t.Fatal(err)
		}
		if c.delivered && strings.Count(story.String(), "(result)") != 1 {
			t.Errorf("the result came not once:\n%s", &story)
		}
	}
	if err := d.verify(); err != nil {
		t.Error(err)
	}
}

// A worker that cannot work is an end, and says why.
func TestWorkerFails(t *testing.T) {
	p := &plant{settings: settings{redis: "nonsense", mqtt: "mqtt://127.0.0.1:1", prefix: "t", data: t.TempDir()}}
	p.ctx, p.fail = context.WithCancelCause(t.Context())
	if err := p.hire(); err != nil {
		t.Fatal(err)
	}
	err := p.diary.await(p.ctx, "credit")
	if err == nil || !strings.Contains(err.Error(), "the worker has ended") || !strings.Contains(err.Error(), "goworkflows:") {
		t.Errorf("%v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// The command line says what it takes.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"worker":                  "with --redis and --mqtt",
		"--redis redis://x order": "PRODUCT[:QUANTITY]",
		"--redis redis://x":       "both, or none",
		"dance":                   `["dance"]`,
	} {
		if err := command(t.Context(), strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

func times(lines []string, line string) int {
	return len(slices.DeleteFunc(lines, func(l string) bool { return l != line }))
}
