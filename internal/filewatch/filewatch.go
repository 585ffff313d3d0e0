// Package filewatch reads files anew when they have changed, and keeps certificates as their files are.
package filewatch

import (
	"io/fs"
	"os"
	"slices"
	"time"
)

// Watch has files read whenever they are others than at the last look, of which it takes at most one a second. It is for one goroutine at a time.
type Watch struct {
	Files []string
	Read  func() error

	looked time.Time
	had    []fs.FileInfo
	failed string // what the last Read said; "" = it succeeded
}

// Look calls Read at the first look, after a change, and after a Read that failed: rights may have been given since. A file that is gone has changed, too.
// It returns the error of Read if that is another one than before.
func (w *Watch) Look(now time.Time) error {
	if d := now.Sub(w.looked); d >= 0 && d < time.Second {
		return nil
	}
	first := w.looked.IsZero()
	w.looked = now
	have := make([]fs.FileInfo, len(w.Files))
	for i, file := range w.Files {
		have[i], _ = os.Stat(file) // nil: it is gone, which its reader says
	}
	same := slices.EqualFunc(w.had, have, func(a, b fs.FileInfo) bool {
		return a == nil && b == nil || a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
	})
	if w.had = have; same && !first && w.failed == "" {
		return nil
	}
	err, last := w.Read(), w.failed
	if w.failed = ""; err != nil {
		w.failed = err.Error()
	}
	if w.failed == last {
		return nil
	}
	return err
}
