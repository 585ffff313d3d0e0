package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/taktworks/takt/internal/filelock"
)

// lockPatience covers the clean end of a child whose parent was killed a moment ago.
const lockPatience = 5 * time.Second

// DirBusyError is a data directory that another process uses.
type DirBusyError struct{ Dir string }

func (e *DirBusyError) Error() string {
	return fmt.Sprintf("the data directory %s is used by another process: stop it or choose another with --data", e.Dir)
}

// dataDir makes dir (or a temporary one if it is "") and locks it. free gives it back and removes it if it was temporary.
func dataDir(ctx context.Context, dir, kind string) (path string, lock *os.File, free func(), err error) {
	temp := dir == ""
	if temp {
		if dir, err = os.MkdirTemp("", "takt-"+kind+"-"); err != nil {
			return "", nil, nil, err
		}
	} else if err = os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, nil, err
	}
	lock, err = lockFile(ctx, filepath.Join(dir, "server.lock")) // whichever program it is of
	if errors.Is(err, filelock.ErrHeld) {
		err = &DirBusyError{Dir: dir}
	}
	if err != nil {
		return "", nil, nil, err
	}
	return dir, lock, func() {
		lock.Close()
		if temp {
			os.RemoveAll(dir)
		}
	}, nil
}

// lockFile takes an exclusive lock on the file at path; a lock held by somebody else is waited for, for a while.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	end := time.Now().Add(lockPatience)
	for {
		f, err := filelock.Open(path)
		if !errors.Is(err, filelock.ErrHeld) || time.Now().After(end) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
