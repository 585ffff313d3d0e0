package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// Waits reports that err is the trouble of the server or of this process' rights on it, and not of what was asked: Away or
// Denied. The same call may succeed later, so nothing may be given up for it. The outcome of a write is unknown.
func Waits(err error) bool { return Away(err) || Denied(err) }

// Away reports that err says nothing about the command, only that the server could not be asked: connection refused, cut or
// timed out, still loading, failing over, out of memory or disk. The outcome of a write is then unknown; whoever repeats it must be safe against
// having done it. A cancelled context of the caller is not Away, a deadline is.
func Away(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if code, said := serverCode(err); code != "" {
		return troubles[code] != "" || passing[code] || strings.HasPrefix(said, "ERR max number of clients")
	}
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) || isCut(err) ||
		errors.Is(err, rueidis.ErrNoAddr) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, rueidis.ErrClosing) // of the library, when it turns to another master with answers outstanding
}

// Denied reports that the server refuses this user, or a command or key to this user. It lasts until an operator changes
// the rights or the password.
func Denied(err error) bool {
	code, said := serverCode(err)
	return code == "NOAUTH" || code == "WRONGPASS" || strings.HasPrefix(said, "ERR AUTH") || lacks(err)
}

// lacks reports that this user may not run a command, or not on a key or channel.
func lacks(err error) bool {
	code, said := serverCode(err)
	return code == "NOPERM" || code == "ERR" && (strings.Contains(said, "ACL failure in script") || strings.Contains(said, "can't run this command"))
}

// Full reports that the server refused a write because its memory limit is reached. Nothing was written.
func Full(err error) bool {
	code, _ := serverCode(err)
	return code == "OOM"
}

// WrongType reports that the key of a command holds another type than the command needs.
func WrongType(err error) bool {
	code, _ := serverCode(err)
	return code == "WRONGTYPE"
}

// Unknown reports that err is a reply of the server of which nothing is known: it does not Wait, and is no WrongType.
func Unknown(err error) bool {
	code, _ := serverCode(err)
	return code != "" && !Waits(err) && code != "WRONGTYPE"
}

// troubles are the states of a server in which it refuses commands until an operator, or time, ends them.
var troubles = map[string]string{
	"OOM":         "Redis is out of memory",
	"LOADING":     "Redis is loading its data",
	"BUSY":        "Redis is busy with a script that does not end",
	"CLUSTERDOWN": "the Redis cluster is down",
	"MASTERDOWN":  "the Redis replica has lost its master",
	"READONLY":    "Redis is a replica and takes no writes",
	"MISCONF":     "Redis takes no writes since it could not save to disk",
	"NOREPLICAS":  "Redis takes no writes since it has too few replicas",
}

// passing are answers that a moment later are others.
var passing = map[string]bool{"TRYAGAIN": true, "UNBLOCKED": true, "MOVED": true, "ASK": true, "NOSCRIPT": true}

// Reason says in a few words why the server did not serve, for an error that Waits. It names no address and no credentials,
// so it may go to the sender of a command.
func Reason(err error) string {
	code, _ := serverCode(err)
	if said := troubles[code]; said != "" {
		return said + " (" + code + ")"
	}
	switch {
	case code == "NOAUTH" || code == "WRONGPASS" || code == "ERR" && Denied(err):
		return "Redis refuses Takt's user, password or rights (" + code + ")"
	case code == "NOPERM":
		return "Redis denies Takt's user a command or a key (NOPERM)"
	case code != "":
		return "Redis cannot serve now (" + code + ")"
	}
	return "Redis does not answer"
}

func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
