package mqtt_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// webProxy puts the path /mqtt of an HTTP server before a broker, as a proxy of a plant does; its certificate is that of a, nil = without TLS. What the broker
// sends is cut into messages of up to 1000 bytes, which are not the packets.
func webProxy(t *testing.T, broker string, a *authority) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/other", func(w http.ResponseWriter, r *http.Request) {
		if ws, err := new(websocket.Upgrader).Upgrade(w, r, nil); err == nil {
			ws.Close()
		}
	})
	mux.HandleFunc("/mqtt", func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{Subprotocols: []string{"mqtt"}}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		tcp, err := net.Dial("tcp", broker)
		if err != nil {
			return // the broker is down
		}
		defer tcp.Close()
		go func() {
			for {
				_, message, err := ws.NextReader()
				if err == nil {
					_, err = io.Copy(tcp, message)
				}
				if err != nil {
					tcp.Close()
					return
				}
			}
		}()
		for part := make([]byte, 1000); ; {
			n, err := tcp.Read(part)
			if n > 0 {
				err = errors.Join(err, ws.WriteMessage(websocket.BinaryMessage, part[:n]))
			}
			if err != nil {
				return
			}
		}
	})
	s := httptest.NewUnstartedServer(mux)
	t.Cleanup(s.Close)
	if a == nil {
		s.Start()
		return "ws" + strings.TrimPrefix(s.URL, "http")
	}
	pair, err := tls.LoadX509KeyPair(a.file("server"), a.file("server-key"))
	testenv.Must(t, err)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	return "wss" + strings.TrimPrefix(s.URL, "https")
}

// Messages of all sizes come over WebSocket, with TLS and without, and the connection is made anew after the broker was away.
func TestWebSocket(t *testing.T) {
	a := newAuthority(t)
	a.make(t, "server", []net.IP{net.IPv4(127, 0, 0, 1)})
	for _, scheme := range []string{"ws", "wss"} {
		t.Run(scheme, func(t *testing.T) {
			b := testenv.Mosquitto(t)
			by, change := (*authority)(nil), func(*mqtt.Options) {}
			if scheme == "wss" {
				by, change = a, func(o *mqtt.Options) { o.CAFile = a.file("ca") }
			}
			c := connected(t, webProxy(t, b.Addr, by)+"/mqtt", "c", change)
			exchange(t, c, 0, 1, 125, 126, 1000, 65_535, 65_536, 300_000, mqtt.MaxPayload)
			testenv.Must(t, b.Server.Kill())
			testenv.Must(t, b.Server.Restart(t.Context()))
			eventually(t, "connected again", func() bool { return c.Facts().Connects == 2 })
			exchange(t, c, 1)
		})
	}
}

// mosquitto's own WebSocket. Its build in Debian 12 starts it beside another listener only, and hands on 40 kB in a second.
func TestWebSocketOfMosquitto(t *testing.T) {
	port := testenv.FreePort(t, "127.0.0.1")
	testenv.StartMosquitto(t, embedded.MosquittoOptions{Listen: []string{fmt.Sprintf("listener %d 127.0.0.1", port), "protocol websockets"}})
	exchange(t, connected(t, fmt.Sprintf("ws://127.0.0.1:%d/mqtt", port), "c"), 0, 1, 125, 126, 1000, 10_000)
}

// exchange sends messages of these sizes and waits for them.
func exchange(t *testing.T, c *mqtt.Conn, sizes ...int) {
	t.Helper()
	ready(t, c)
	box := newInbox()
	testenv.Must(t, c.Subscribe(within(t), box.sub("a")))
	for _, size := range sizes {
		body := bytes.Repeat([]byte("x"), size)
		publish(t, c, mqtt.Message{Topic: "a", Payload: body, QoS: 1})
		if in := box.next(t); !bytes.Equal(in.Payload, body) {
			t.Errorf("%d bytes came of %d", len(in.Payload), size)
		}
	}
}

// What is no MQTT, over WebSocket or TLS, is named with what to check.
func TestWebSocketRefused(t *testing.T) {
	proxy := webProxy(t, "127.0.0.1:1", nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() { // what is asked is unknown to it, as to most servers
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(c, "-ERR unknown command\r\n")
			c.Close()
		}
	}()
	other := l.Addr().String()
	for url, want := range map[string]string{
		"ws://" + other:      mqtt.ErrNoMQTT5.Error(),
		"wss://" + other:     mqtt.ErrNoMQTT5.Error(),
		"mqtts://" + other:   mqtt.ErrNoMQTT5.Error(),
		"mqtt://" + other:    mqtt.ErrNoMQTT5.Error(),
		proxy + "/":          "opens no WebSocket, the answer is 404 Not Found: check host, port and path",
		proxy + "/other":     "not for MQTT: check host, port and path",
		"ws://127.0.0.1:1/x": "connection refused",
	} {
		c := newConn(t, url, "c")
		run(t, c.Run)
		var err error
		eventually(t, url, func() bool {
			err = whyNotReady(t, c)
			return err == nil || !strings.HasPrefix(err.Error(), "mqtt: not connected: context") // there was an attempt
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}
