package mqtt

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // part of the error, "" = fine
	}{
		{"plain", Options{URL: "mqtt://host", ClientID: "a"}, ""},
		{"tcp and port", Options{URL: "tcp://host:1", ClientID: "a"}, ""},
		{"tls", Options{URL: "mqtts://host", ClientID: "a"}, ""},
		{"no id, no session", Options{URL: "mqtt://host"}, ""},
		{"no url", Options{}, "URL"},
		{"no host", Options{URL: "mqtt://"}, "URL"},
		{"scheme", Options{URL: "http://host"}, `"http"`},
		{"WebSocket", Options{URL: "ws://host/mqtt"}, ""},
		{"WebSocket with TLS", Options{URL: "wss://user:pass@host"}, ""},
		{"port too large", Options{URL: "ws://host:99999"}, "must be 1 to 65535"},
		{"port 0", Options{URL: "mqtt://host:0"}, "must be 1 to 65535"},
		{"path without WebSocket", Options{URL: "mqtts://host/mqtt"}, "has a path, which only ws:// and wss:// may have"},
		{"empty path", Options{URL: "mqtt://host/"}, ""},
		{"query", Options{URL: "ws://host/mqtt?a=b"}, "a query or a fragment"},
		{"escaped", Options{URL: "mqtt://user:12%2F%40%23%3F%25@host"}, ""},
		{"/ in password", Options{URL: "mqtt://user:12/x@host"}, "percent-encode special characters of the password"},
		{"? in password", Options{URL: "mqtt://user:12?x@host"}, "percent-encode special characters of the password"},
		{"# in password", Options{URL: "ws://user:12#x@host"}, "percent-encode special characters of the password"},
		{"% in password", Options{URL: "mqtt://user:12%x@host"}, "percent-encode special characters of the password"},
		{"CA and WebSocket without tls", Options{URL: "ws://host", CAFile: "x"}, "wss://"},
		{"session without id", Options{URL: "mqtt://host", SessionExpiry: time.Hour}, "ClientID"},
		{"id with NUL", Options{URL: "mqtt://host", ClientID: "a\x00"}, "ClientID"},
		{"certificate without key", Options{URL: "mqtts://host", CertFile: "x"}, "KeyFile"},
		{"CA without tls", Options{URL: "mqtt://host", CAFile: "x"}, "mqtts"},
		{"CA missing", Options{URL: "mqtts://host", CAFile: "/no/such/file"}, "CAFile"},
		{"keep-alive", Options{URL: "mqtt://host", KeepAlive: time.Millisecond}, "KeepAlive 1ms: want 1s"},
		{"negative", Options{URL: "mqtt://host", PublishTimeout: -1}, "PublishTimeout"},
		{"negative expiry", Options{URL: "mqtt://host", SessionExpiry: -1, ClientID: "a"}, "SessionExpiry"},
		{"private topic", Options{URL: "mqtt://host", PrivateTopic: "a/#"}, "PrivateTopic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.o)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOptionsDefaults(t *testing.T) {
	c, err := New(Options{URL: "ssl://[::1]", ClientID: "a/b+c"})
	testenv.Must(t, err)
	if c.broker.Host != "[::1]:8883" || c.o.ReceiveMaximum != 65535 || c.o.KeepAlive != 30*time.Second || c.o.PrivateTopic != "takt/private/a-b-c" {
		t.Errorf("%+v %s", c.o, c.broker)
	}
}

// A password is nowhere to be seen: not in logs, not in errors, however it came and however wrong
// the rest is.
func TestOptionsSecrets(t *testing.T) {
	const secret = "s3cr3t"
	var log bytes.Buffer
	for _, o := range []Options{
		{URL: "mqtt://user:" + secret + "@host:1883", ClientID: "a"},
		{URL: "mqtt://host:1883", Username: secret, Password: secret, ClientID: "a"},
		{URL: "mqtt://user:" + secret + "/x@host", ClientID: "a"},
		{URL: "mqtt://user:" + secret + " x@host", ClientID: "a"},
		{URL: "mqtt://" + secret + ":12/x@host", ClientID: "a"},
		{URL: "wss://user:" + secret + "@host/mqtt", ClientID: "a"},
		{URL: "mqtt://user:" + secret + "@:1883/\x7f", ClientID: "a"},
		{URL: "amqp://user:" + secret + "@host", ClientID: "a"},
	} {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Log.Info("options", "o", o)
		c, err := New(o)
		if err == nil {
			c.log.Info("conn", "c", c)
		}
		text := fmt.Sprintf("%v %+v %#v %s %v %v %+v %s", o, o, o, o, err, c, c, log.String())
		if strings.Contains(text, secret) {
			t.Errorf("shown: %s", text)
		}
	}
	c, err := New(Options{URL: "mqtt://user:" + secret + "@host", ClientID: "a"})
	if err != nil || c.o.Username != "user" || c.o.Password != secret {
		t.Errorf("not taken from the URL: %v", err)
	}
}

// A topic that holds a secret is in no error as it is.
func TestShownTopic(t *testing.T) {
	c, err := New(Options{URL: "mqtt://127.0.0.1:1", ShownTopic: func(topic string) string { return strings.ReplaceAll(topic, "secret", "(hidden)") }})
	testenv.Must(t, err)
	err = c.Publish(t.Context(), Message{Topic: "a/secret", QoS: 1})
	if !errors.Is(err, ErrDown) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "a/(hidden)") {
		t.Error(err)
	}
}
