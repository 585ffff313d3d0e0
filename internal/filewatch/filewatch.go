// Package filewatch tells when files have changed.
package filewatch

import (
	"io/fs"
	"os"
	"slices"
	"time"
)

// Watch tells whether files are others than at the last look, of which it takes at most one a second. It is for one goroutine at a time.
type Watch struct {
	Files []string

	looked time.Time
	had    []fs.FileInfo
}

// Changed tells it at a time; the first look finds them changed. A file that is gone has changed, too.
func (w *Watch) Changed(now time.Time) bool {
	if d := now.Sub(w.looked); d >= 0 && d < time.Second {
		return false
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
	w.had = have
	return first || !same
}
