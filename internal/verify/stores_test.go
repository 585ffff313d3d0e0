package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table has a row for each package that ran on a store, counts tests and not their parts, and shows what failed or was skipped.
func TestStoresTable(t *testing.T) {
	all := make(storeResults)
	all.put("redis-7.0", []outcome{{"lock", "TestA", "fail"}, {"task", "TestB", "pass"}})
	all.put("redis-7.0", []outcome{{"lock", "TestA", "pass"}, {"lock", "TestA/part", "fail"}, {"lock", "TestC", "pass"}}) // again, of this package alone
	all.put("valkey-8.0", []outcome{{"lock", "TestA", "pass"}, {"lock", "TestC", "fail"}, {"lock", "TestD", "skip"}})
	want := []string{"| `lock` | 2 passed | 1 passed, **1 failed**, 1 skipped |", "| `task` | 1 passed | - |"}
	var rows []string
	for line := range strings.Lines(all.table()) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("docs/operations", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := all.write("."); err != nil {
		t.Fatal(err)
	}
	again, err := readStores(storesFile)
	if diff := cmp.Diff(all, again); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if err := os.WriteFile(storesFile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readStores(storesFile); err == nil || !strings.Contains(err.Error(), storesFile) {
		t.Errorf("a broken file: %v", err)
	}
}

// A store that cannot be got is an error, before any test runs.
func TestStoreThatIsNotThere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("scripts", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"modules": "#!/bin/sh\necho .\n", "store": "#!/bin/sh\necho no package mirror >&2\nexit 1\n"} {
		if err := os.WriteFile("scripts/"+name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	err := runStores(".", []string{"lock"}, nil, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "redis-7.0 cannot be got") || !strings.Contains(err.Error(), "no package mirror") {
		t.Errorf("%v", err)
	}
}
