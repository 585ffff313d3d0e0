// Package filelock opens files for one process at a time.
package filelock

import "errors"

// ErrHeld: another holder has the file, in this process or another one.
var ErrHeld = errors.New("the file is held by another process")
