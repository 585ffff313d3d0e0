package filelock_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/taktworks/takt/internal/filelock"
	"github.com/taktworks/takt/internal/testenv"
)

// A file has one holder, until it is closed.
func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Open(path)
	testenv.Must(t, err)
	if file, err := filelock.Open(path); !errors.Is(err, filelock.ErrHeld) || file != nil {
		t.Fatalf("a second one: %v", err)
	}
	if _, err := first.WriteString("mine"); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, first.Close())
	second, err := filelock.Open(path)
	testenv.Must(t, err)
	defer second.Close()
	text := make([]byte, 10)
	if n, _ := second.Read(text); string(text[:n]) != "mine" {
		t.Errorf("the file has %q", text[:n])
	}
	if _, err := filelock.Open(filepath.Join(path, "below")); err == nil || errors.Is(err, filelock.ErrHeld) {
		t.Errorf("below a file: %v", err)
	}
	if _, err := filelock.Open(filepath.Join(t.TempDir(), "no", "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}
