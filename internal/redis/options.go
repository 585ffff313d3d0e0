package redis

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options says which server to use and how to speak to it.
type Options struct {
	// URL names the server:
	//
	//	redis://[user:password@]host[:port][/db]        rediss:// the same over TLS
	//	redis://host1:port,host2:port                   several nodes of one cluster
	//	redis+sentinel://[user:password@]s1:port,s2:port/master[/db]   rediss+sentinel:// over TLS
	//	unix:///path/to/socket[?db=n]
	//
	// valkey is understood wherever redis is. Characters of the password that mean something
	// in a URL are percent-encoded.
	URL string

	Username, Password                 string // win over those in URL; "" = those in URL
	SentinelUsername, SentinelPassword string // of the sentinels themselves; "" = none

	CAFile            string // PEM; "" = the system's roots
	CertFile, KeyFile string // PEM, both or none: the client's own certificate
	// ServerName is the name that the certificate of each server must have, where sentinels and nodes share one; "" = that by which each is reached: the host of the URL, or
	// what the sentinels or the cluster say.
	ServerName string

	// Prefix is the key prefix; it is only looked at to refuse an untagged one on a cluster. "" = not checked
	// on a single server, refused on a cluster.
	Prefix string
	// PrefixOption is what users write before the prefix, for the advice in that case; "" = "--prefix ".
	PrefixOption string
	// Untagged is the advice in that case, if there is more to say; "" = to choose another prefix.
	Untagged string

	// Embedded marks the in-process store, which answers CLUSTER SLOTS without being a cluster and has no
	// pub/sub on RESP3.
	Embedded bool

	// Looks says that the program only reads: the server is not asked whether it takes writes.
	Looks bool

	// Dial makes connections in the place of the network, for embedded.Pipe; URL must be a valid one all the same. They are not pinged. nil = the network.
	Dial func() (net.Conn, error)

	Log *slog.Logger // told at the start of a server whose memory is full, or that evicts keys; nil = nobody is

	RESP2       bool          // speak RESP2 although the server offers RESP3
	ClientName  string        // shown by CLIENT LIST; "" = takt
	DialTimeout time.Duration // of one connection attempt, handshake included; 0 = 5 s
}

// target is an understood URL.
type target struct {
	network string // tcp or unix
	addrs   []string
	user    string
	pass    string
	db      int
	master  string // sentinel master set, "" = no sentinel
	tls     bool
}

const urlForm = "expected redis://localhost:6379, in full redis://[user:password@]host[:port][/db], or rediss://..., redis+sentinel://host:port,.../master or unix:///path; percent-encode special characters of the password"

// The errors of a URL never hold a part of it: what could not be parsed may be a password.
var (
	errURL    = errors.New("redis: the URL of the server cannot be read: " + urlForm)
	errPort   = errors.New("redis: the port in the URL of the server must be 1 to 65535: " + urlForm)
	errScheme = errors.New("redis: the URL of the server has no scheme: " + urlForm)
)

// errParameter is for what others read from a URL, such as goworkflows: whoever copied that URL here meant another prefix than would be read.
var errParameter = errors.New("redis: the URL of the server has a parameter that is not db after its ?: expected redis://host:port/db; prefix and shards are settings of their own, --prefix and --shards")

// CheckURL says what is wrong with a URL for Options, nil if nothing is. Its errors hold no part of the URL.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

// parse reads a URL of Options. Its errors hold no part of the credentials.
func parse(raw string) (target, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(raw), "://")
	if !ok {
		return target{}, errScheme
	}
	scheme = strings.ToLower(scheme)
	if strings.HasPrefix(scheme, "valkey") {
		scheme = "redis" + strings.TrimPrefix(scheme, "valkey")
	}
	t := target{network: "tcp"}
	rest, query, _ := strings.Cut(rest, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return target{}, errURL
	}
	for name := range q {
		if name != "db" { // not named: it may be a part of a password
			return target{}, errParameter
		}
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		name, pass, _ := strings.Cut(hosts[:i], ":")
		hosts = hosts[i+1:]
		if t.user, err = url.PathUnescape(name); err != nil {
			return target{}, errURL
		}
		if t.pass, err = url.PathUnescape(pass); err != nil {
			return target{}, errURL
		}
	} else if strings.ContainsRune(path, '@') { // an unescaped / in the password
		return target{}, errURL
	}
	db := q.Get("db")
	switch scheme {
	case "unix":
		t.network, t.addrs = "unix", []string{"/" + path}
		return t.withDB(db)
	case "redis", "rediss":
		t.tls = scheme == "rediss"
		if path != "" {
			db = path
		}
		return t.withHosts(hosts, "6379", db)
	case "redis+sentinel", "rediss+sentinel", "redis-sentinel", "rediss-sentinel":
		t.tls = strings.HasPrefix(scheme, "rediss")
		master, no, _ := strings.Cut(path, "/")
		if t.master = master; master == "" {
			return target{}, errors.New("redis: a sentinel URL names the master set: redis+sentinel://host:26379/mymaster")
		}
		if no != "" {
			db = no
		}
		return t.withHosts(hosts, "26379", db)
	}
	return target{}, fmt.Errorf("redis: URL scheme %q is unknown: %s", scheme, urlForm)
}

func (t target) withHosts(hosts, port, db string) (target, error) {
	for _, h := range strings.Split(hosts, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil { // no port
			host, p = strings.Trim(h, "[]"), port
		}
		host = cmp.Or(host, "localhost")
		if strings.ContainsAny(host, " @") {
			return target{}, errURL
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return target{}, errPort
		}
		t.addrs = append(t.addrs, net.JoinHostPort(host, p))
	}
	return t.withDB(db)
}

func (t target) withDB(db string) (target, error) {
	if db == "" {
		return t, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(db, "/"))
	if err != nil || n < 0 {
		return target{}, errors.New("redis: the database in the URL is not a number: redis://host:port/0")
	}
	t.db = n
	return t, nil
}

// where names the server without credentials, for errors and logs.
func (t target) where() string {
	s := strings.Join(t.addrs, ",")
	if t.master != "" {
		s += " (sentinels of " + t.master + ")"
	}
	return s
}

// Redact returns raw without its password, fit for logs; a URL that cannot be read is hidden whole.
func Redact(raw string) string {
	t, err := parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	scheme, _, _ := strings.Cut(strings.TrimSpace(raw), "://")
	s := scheme + "://"
	if t.user != "" || t.pass != "" {
		s += t.user + ":***@"
	}
	s += strings.Join(t.addrs, ",")
	if t.master != "" {
		s += "/" + t.master
	}
	if t.db != 0 {
		s += "/" + strconv.Itoa(t.db)
	}
	return s
}

// tlsConfig reads the files of o. nil = no TLS.
func (o Options) tlsConfig(t target) (*tls.Config, error) {
	if !t.tls {
		if o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" {
			return nil, errors.New("redis: certificate files are given but the URL asks for no TLS: use rediss://")
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName} // without a name the one that is dialed counts
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis: CA file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis: CA file %s holds no PEM certificate", o.CAFile)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("redis: a client certificate needs both files, certificate and key")
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redis: client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
