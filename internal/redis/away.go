package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/redis/rueidis"
)

// Away reports that err says nothing about the command, only that the server could not be asked: connection refused, cut or
// timed out, still loading, failing over, out of memory or disk. The outcome of a write is then unknown; whoever repeats it must be safe against
// having done it. A cancelled context of the caller is not Away, a deadline is.
func Away(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if code, _ := serverCode(err); code != "" {
		switch code {
		case "LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MISCONF", "OOM", "NOREPLICAS", "UNBLOCKED", "MOVED", "ASK":
			return true
		}
		return false
	}
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) || isCut(err) ||
		errors.Is(err, rueidis.ErrNoAddr) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, rueidis.ErrClosing) // of the library, when it turns to another master with answers outstanding
}

func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
