package filewatch_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/filewatch"
	"github.com/taktworks/takt/internal/testenv"
)

// A change of any file is told once, at the first look that is a second after the last one; another file in the place of one is a change, and so is none.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write := func(file, text string) { testenv.Must(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(a, "1")
	w := filewatch.Watch{Files: []string{a, b}}
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
		if now = now.Add(c.after); w.Changed(now) != c.want {
			t.Errorf("%s: changed %v, want %v", c.what, !c.want, c.want)
		}
	}
}
