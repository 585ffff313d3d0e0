package testenv

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
)

// Broker is an MQTT broker of one test.
type Broker struct {
	Server *embedded.Server // Kill, Restart, PID
	URL    string           // mqtt://host:port
	Addr   string           // host:port
}

// Mosquitto starts a mosquitto without persistence for this test.
func Mosquitto(t testing.TB) *Broker {
	t.Helper()
	return StartMosquitto(t, embedded.MosquittoOptions{})
}

// StartMosquitto starts a broker as o says, for tests that kill it and look at what it kept.
func StartMosquitto(t testing.TB, o embedded.MosquittoOptions) *Broker {
	t.Helper()
	if o.Stdout == nil && Logs() {
		o.Stdout = &testLog{t: t, name: "mosquitto"}
	}
	s, err := embedded.StartMosquitto(Within(t), o)
	return broker(t, s, err)
}

// Mochi starts the in-process broker for this test.
func Mochi(t testing.TB, o embedded.MochiOptions) *Broker {
	t.Helper()
	s, err := embedded.StartMochi(t.Context(), o)
	return broker(t, s, err)
}

func broker(t testing.TB, s *embedded.Server, err error) *Broker {
	t.Helper()
	Must(t, err)
	end(t, s)
	return &Broker{Server: s, URL: s.URL(), Addr: strings.TrimPrefix(s.URL(), "mqtt://")}
}
