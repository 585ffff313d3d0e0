package mqtt

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/topics"
)

// Options of one connection. The zero value of a field means its default.
type Options struct {
	// URL of the broker: mqtt:// or tcp:// (port 1883), mqtts://, tls:// or ssl:// (port 8883); over
	// WebSocket ws:// (port 80) or wss:// (port 443), with the path that the broker wants. A user and a password may stand in it; Username and Password win.
	URL string

	// ClientID names the session at the broker. Two connections with one id throw each other
	// out for ever, so every connection of every process needs its own. Keep it
	// over restarts when SessionExpiry is set. Empty: the broker chooses; only without a session.
	ClientID string

	Username, Password string // never logged, never part of an error

	CAFile            string // PEM; trusted instead of the system's roots; read at every connect
	CertFile, KeyFile string // PEM client certificate and key, both or none; read at every connect

	// SessionExpiry is how long the broker keeps subscriptions and undelivered messages after a
	// lost connection, in whole seconds. 0: no session, every connect starts clean.
	SessionExpiry time.Duration

	KeepAlive      time.Duration // default 30 s, 1 s to 18 h; a dead peer is noticed within twice this
	ConnectTimeout time.Duration // default 10 s, for TCP, TLS and CONNACK together
	PublishTimeout time.Duration // default 10 s, until PUBACK or SUBACK

	// ReceiveMaximum bounds messages delivered and not acknowledged. Default 65535, which the
	// embedded broker needs: with less it stalls. So many may wait in memory when handlers hang.
	ReceiveMaximum uint16

	// ReceiveBytes bounds the bytes of messages that came and were neither acknowledged nor left to the
	// broker again. Beyond it nothing more is read from the network, so the broker keeps the rest; while
	// that lasts longer than the keep-alive, the connection is made anew. 0: no bound. Every message must
	// be acknowledged in the end.
	ReceiveBytes int

	// OneConnection has Run return when its first connection is lost, instead of making another.
	OneConnection bool

	// PrivateTopic is where Retained publishes its end marker; only this connection subscribes to
	// it. Default takt/private/{client id}, with - for / + #; with another topic prefix than takt it begins with that.
	PrivateTopic string

	Log *slog.Logger // default: slog.Default()

	// ShownTopic is a topic as it may stand in logs and errors, for topics that hold a secret. Default: verbatim.
	ShownTopic func(topic string) string
}

// maxPacket is the largest packet we let the broker send (CONNECT Maximum Packet Size), 16 MiB.
// A payload between MaxPayload and this arrives and is refused with an answer; what is larger
// the broker drops without a word [MQTT-3.1.2-25].
const maxPacket = 16 << 20

// CheckURL says what is wrong with a URL for Options, nil if nothing is. Its errors hold no user and no password.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

const urlForm = "expected mqtt://localhost:1883, in full mqtt://[user:password@]host[:port], or mqtts://..., or over WebSocket ws://[user:password@]host[:port][/path] or wss://...; percent-encode special characters of the password"

// parseURL gives the URL of a broker its port, and mqtt, mqtts, ws or wss as its scheme.
func parseURL(raw string) (*url.URL, error) {
	// No part of the text is quoted when it does not parse: it may hold a password.
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.User == nil && strings.Contains(raw, "@") { // the last: an unescaped / ? or # in the password
		return nil, errors.New("mqtt: the URL of the broker cannot be read: " + urlForm)
	}
	port := ""
	switch u.Scheme {
	case "mqtt", "tcp":
		u.Scheme, port = "mqtt", "1883"
	case "mqtts", "tls", "ssl":
		u.Scheme, port = "mqtts", "8883"
	case "ws":
		port = "80"
	case "wss":
		port = "443"
	default:
		return nil, fmt.Errorf("mqtt: the URL of the broker has the unknown scheme %q: %s", u.Scheme, urlForm)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("mqtt: the URL of the broker has a query or a fragment, after ? or #: " + urlForm)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	} else if n, err := strconv.Atoi(u.Port()); err != nil || n < 1 || n > math.MaxUint16 {
		return nil, errors.New("mqtt: the port in the URL of the broker must be 1 to 65535: " + urlForm)
	}
	if u.Scheme == "mqtt" || u.Scheme == "mqtts" {
		if u.Path != "" && u.Path != "/" {
			return nil, errors.New("mqtt: the URL of the broker has a path, which only ws:// and wss:// may have: " + urlForm)
		}
		u.Path = ""
	}
	return u, nil
}

// secure says whether a broker is reached by TLS.
func secure(u *url.URL) bool { return u.Scheme == "mqtts" || u.Scheme == "wss" }

// validate fills defaults in and names field, value and floor of what cannot be.
func (o *Options) validate() (*url.URL, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if u.User != nil {
		if o.Username == "" {
			o.Username = u.User.Username()
		}
		if o.Password == "" {
			o.Password, _ = u.User.Password()
		}
	}
	u.User = nil // from here on without user and password

	if rule := textRule(o.ClientID); rule != "" {
		return nil, fmt.Errorf("mqtt: ClientID %.64q: %s", o.ClientID, rule)
	}
	if o.ClientID == "" && o.SessionExpiry != 0 {
		return nil, errors.New("mqtt: ClientID: needed when SessionExpiry is set")
	}
	if textRule(o.Username) != "" || len(o.Password) > math.MaxUint16 {
		return nil, errors.New("mqtt: Username or Password: not allowed in MQTT")
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("mqtt: CertFile and KeyFile: give both or none")
	}
	if !secure(u) && (o.CAFile != "" || o.CertFile != "") {
		return nil, fmt.Errorf("mqtt: CAFile and CertFile need mqtts:// or wss://, not %s", u)
	}
	if o.ReceiveBytes < 0 {
		return nil, fmt.Errorf("mqtt: ReceiveBytes %d: want 0 or more", o.ReceiveBytes)
	}
	if o.SessionExpiry < 0 {
		return nil, fmt.Errorf("mqtt: SessionExpiry %v: want 0 or more", o.SessionExpiry)
	}
	o.KeepAlive = cmp.Or(o.KeepAlive, 30*time.Second)
	if o.KeepAlive < time.Second || o.KeepAlive > math.MaxUint16*time.Second {
		return nil, fmt.Errorf("mqtt: KeepAlive %v: want 1s to 18h12m15s", o.KeepAlive)
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
	}{{"ConnectTimeout", &o.ConnectTimeout}, {"PublishTimeout", &o.PublishTimeout}} {
		*d.field = cmp.Or(*d.field, 10*time.Second)
		if *d.field < 0 {
			return nil, fmt.Errorf("mqtt: %s %v: want more than 0", d.name, *d.field)
		}
	}
	o.ReceiveMaximum = cmp.Or(o.ReceiveMaximum, math.MaxUint16)
	o.PrivateTopic = cmp.Or(o.PrivateTopic, topics.Prefix("takt").Private(o.ClientID))
	if err := CheckTopic(o.PrivateTopic); err != nil {
		return nil, fmt.Errorf("mqtt: PrivateTopic: %w", err)
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.ShownTopic == nil {
		o.ShownTopic = func(topic string) string { return topic }
	}
	if secure(u) {
		if _, err := o.tls(u.Hostname()); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// tls reads the certificate files. It is called at every connect, so renewed files are taken
// up without a restart.
func (o *Options) tls(host string) (*tls.Config, error) {
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("mqtt: CAFile: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("mqtt: CAFile %s: no certificate in it", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("mqtt: CertFile, KeyFile: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// String leaves user and password out, so that options may be printed.
func (o Options) String() string {
	host := "?"
	if u, err := parseURL(o.URL); err == nil {
		host = u.Scheme + "://" + u.Host
	}
	return fmt.Sprintf("mqtt %s as %q", host, o.ClientID)
}

// GoString is String, for %#v.
func (o Options) GoString() string { return o.String() }

// LogValue is String, for slog.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }
