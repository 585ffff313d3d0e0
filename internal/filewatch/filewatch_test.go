package filewatch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/filewatch"
	"github.com/taktworks/takt/internal/testenv"
)

// Files are read once after a change of any, at the first look that is a second after the last one; another file in the place of one is a change, and so is none. After a failure they
// are read until that succeeds, and each error is returned once.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write := func(file, text string) { testenv.Must(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(a, "1")
	reads, denied := 0, error(nil)
	w := filewatch.Watch{Files: []string{a, b}, Read: func() error { reads++; return denied }}
	now := time.Now()
	for _, c := range []struct {
		what   string
		change func()
		after  time.Duration
		want   bool
	}{
		{"the first look", func() {}, 0, true},
		{"nothing", func() {}, time.Second, false},
		{"a change, looked for too soon", func() { write(a, "12") }, time.Second - 1, false},
		{"the same change", func() {}, 1, true},
		{"a new file", func() { write(b, "1") }, time.Second, true},
		{"another file of the same size and time", func() {
			info, err := os.Stat(b)
			testenv.Must(t, err)
			write(b+"2", "2")
			testenv.Must(t, os.Chtimes(b+"2", info.ModTime(), info.ModTime()))
			testenv.Must(t, os.Rename(b+"2", b))
		}, time.Second, true},
		{"no file", func() { testenv.Must(t, os.Remove(a)) }, time.Minute, true},
		{"a clock that is set back", func() { write(a, "1") }, -time.Hour, true},
	} {
		c.change()
		before := reads
		if now = now.Add(c.after); w.Look(now) != nil || reads > before != c.want {
			t.Errorf("%s: read %v, want %v", c.what, !c.want, c.want)
		}
	}
	denied = errors.New("denied")
	write(a, "12345")
	for i, want := range []error{denied, nil, nil} {
		before := reads
		if now = now.Add(time.Second); !errors.Is(w.Look(now), want) || reads != before+1 {
			t.Errorf("look %d after a failure: want %v and one read", i, want)
		}
		if i == 1 {
			denied = nil
		}
	}
	if before := reads; w.Look(now.Add(time.Second)) != nil || reads != before {
		t.Error("what could be read again is read once more")
	}
}
