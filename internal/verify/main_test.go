package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNumbers(t *testing.T) {
	got, err := numbers("# comment\nE-S1..E-S3 E-P9\nD28 # more\n")
	if want := []string{"E-S1", "E-S2", "E-S3", "E-P9", "D28"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"E-S3..E-S1", "E-S1..E-P3", "D..D4"} {
		if got, err := numbers(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	if _, err := numbers(numbersTxt); err != nil {
		t.Error(err)
	}
}

// A number counts only in a test that ran, as a word of its own.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("p", 0o700); err != nil {
		t.Fatal(err)
	}
	source := `package p

import "testing"

// Holds D1 and not D1x.
func TestRan(t *testing.T) { _ = "E-S12" }

// D2 is only here.
func TestDidNotRun(t *testing.T) {}

// D3 is in no test.
func helper() {}
`
	if err := os.WriteFile(filepath.Join("p", "p_test.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	where, err := find(".", map[string]bool{"p TestRan": true, "p TestRan/D4_of_the_name": true})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[string]bool{"D1": true, "E-S12": true, "E-S1": false, "D2": false, "D3": false, "D4": true} {
		if got := len(where[n]) > 0; got != want {
			t.Errorf("%s found: %v, want %v (%v)", n, got, want, where[n])
		}
	}
}
