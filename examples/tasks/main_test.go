package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// TestRun: the whole program, on the Redis of a user and on its own, prints what its README says.
func TestRun(t *testing.T) {
	for name, url := range map[string]func(*testing.T) (url, prefix string){
		"redis":      func(t *testing.T) (string, string) { srv := testenv.Redis(t); return srv.URL, srv.Prefix(t) },
		"in process": func(*testing.T) (string, string) { return "", "example-tasks" },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
			defer cancel()
			url, prefix := url(t)
			var out bytes.Buffer
			if err := run(ctx, url, prefix, &out); err != nil {
				t.Fatalf("%v, after\n%s", err, &out)
			}
			if want := output(t); undated(out.String()) != undated(want) {
				t.Errorf("it printed\n%s, the README says\n%s", &out, want)
			}
		})
	}
}

// output is what the README says that the program prints.
func output(t *testing.T) string {
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
	return block
}

// undated leaves out what another run prints otherwise: the day, and whether a busy machine packs two parcels at once, which is the most.
func undated(s string) string {
	s = strings.Replace(s, "at most 1 at once", "at most 2 at once", 1)
	return regexp.MustCompile(`\d{4}-\d\d-\d\d`).ReplaceAllString(s, "DATE")
}
