package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// Error is a server that Takt cannot work with. It holds no credentials.
type Error struct {
	Server  string // host:port, without credentials
	Problem string
	Fix     string // what to do next
	Err     error  // the cause, nil if Problem says it all
}

func (e *Error) Error() string { return "redis: " + e.Server + " " + e.Problem + ": " + e.Fix }

func (e *Error) Unwrap() error { return e.Err }

// explain turns what the library or the server said into an *Error with the next step.
func (o Options) explain(t target, err error) error {
	var done *Error
	if err == nil || errors.As(err, &done) {
		return err
	}
	e := &Error{Server: t.where(), Err: err}
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		record    tls.RecordHeaderError
		dns       *net.DNSError
	)
	code, said := serverCode(err)
	switch {
	case errors.As(err, &dns):
		e.Problem, e.Fix = "has a host name that does not resolve", "check the host in the URL"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		e.Problem, e.Fix = "does not answer, nothing listens there", "start the server or name another with --redis URL"
	case errors.Is(err, context.Canceled):
		e.Problem, e.Fix = "was not reached before the program was stopped", "start again"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		e.Problem, e.Fix = "did not answer in time", "check address, firewall and load of the server"
		if t.tls {
			e.Fix += ", and use redis:// if it speaks no TLS"
		}
	case errors.As(err, &record):
		e.Problem, e.Fix = "does not speak TLS", "use redis:// instead of rediss://, or the server's TLS port"
	case errors.As(err, &authority):
		e.Problem, e.Fix = "has a certificate of an unknown authority", "give the authority's certificate as CA file"
	case errors.As(err, &hostname):
		e.Problem, e.Fix = "has a certificate for another name", "reach each server by a name of its certificate, sentinels and cluster nodes by what they announce, or name it with --redis-server-name"
	case strings.Contains(err.Error(), "remote error: tls:"):
		e.Problem, e.Fix = "refuses the TLS handshake ("+err.Error()+")", "give a client certificate and key that the server accepts"
	case code == "WRONGPASS" || code == "NOAUTH" || strings.Contains(said, "AUTH"):
		e.Problem, e.Fix = "refuses the user name or password", "put the right ones in the URL, redis://user:password@host:port, or in the options"
		if t.master != "" {
			e.Fix += "; those of the sentinels themselves are others, --redis-sentinel-username and --redis-sentinel-password"
		}
	case lacks(err):
		e.Problem, e.Fix = "denies a right to this user ("+said+")", allow(o.Prefix, o.Looks)
	case code == "READONLY":
		e.Problem, e.Fix = "is a replica and takes no writes", "name the master, or the sentinels that know it"
	case code == "MISCONF":
		e.Problem, e.Fix = "takes no writes since it could not save to disk", "free the disk or repair the directory, see its log"
	case code == "LOADING":
		e.Problem, e.Fix = "is still loading its data", "wait until it is ready and start again"
	case strings.Contains(said, "SELECT is not allowed in cluster mode"):
		e.Problem, e.Fix = "is a cluster node and has only database 0", "leave the database out of the URL"
	case strings.Contains(said, "DB index"):
		e.Problem, e.Fix = "has no database of that number", "choose another in the URL, redis://host:port/0"
	case code == "CLUSTERDOWN":
		e.Problem, e.Fix = "is a cluster that is down, slots have no master ("+code+")", "wait until a replica has taken over, or mend the cluster, and start again"
	case code == "MOVED" || code == "CROSSSLOT":
		e.Problem, e.Fix = "is a cluster node that does not serve these keys ("+code+")", "check the cluster, and choose a tagged prefix such as {takt}"
	case strings.Contains(err.Error(), "unknown message type"):
		e.Problem, e.Fix = "does not answer as Redis does", "check host and port"
	case t.master != "":
		e.Problem, e.Fix = "cannot be used ("+err.Error()+")", "check that the sentinels know a master set of that name and can reach it"
	case t.tls && isCut(err):
		e.Problem, e.Fix = "closed the connection during the TLS handshake", "use redis:// if the server speaks no TLS; check the client certificate if it asks for one"
	case isCut(err):
		e.Problem, e.Fix = "closed the connection at once", "use rediss:// if the server speaks TLS; check its log and protected mode"
	default:
		e.Problem, e.Fix = "cannot be used ("+err.Error()+")", "check the URL and the server's log"
	}
	return e
}

// serverCode is the first word of an error reply, and all of it; "" if err is none.
func serverCode(err error) (code, said string) {
	if re, ok := errors.AsType[*rueidis.RedisError](err); ok {
		said = re.Error()
		if first, _, _ := strings.Cut(said, " "); said != "" && (first != strings.ToUpper(first) || first == "ACL") { // the library takes ERR off, of Valkey's ERR ACL failure in script too
			said = "ERR " + said
		}
	} else if se, ok := errors.AsType[serverError](err); ok {
		said = string(se)
	}
	code, _, _ = strings.Cut(said, " ")
	return code, said
}

// serverError is the text of a server error that came inside a script's reply.
type serverError string

func (e serverError) Error() string { return string(e) }

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
