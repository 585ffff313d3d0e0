package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// dialWebSocket opens a connection by MQTT 5, 6. cfg is nil for ws://. A proxy is taken from HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
func (c *Conn) dialWebSocket(ctx context.Context, cfg *tls.Config) (net.Conn, error) {
	d := websocket.Dialer{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg, Subprotocols: []string{"mqtt"}}
	ws, answer, err := d.DialContext(ctx, c.broker.String(), nil)
	switch {
	case err != nil && answer != nil:
		return nil, fmt.Errorf("mqtt: %s opens no WebSocket, the answer is %s: check host, port and path, which is /mqtt at many brokers", c.broker, answer.Status)
	case err != nil:
		return nil, fmt.Errorf("mqtt: WebSocket: %w", unlike(err))
	case ws.Subprotocol() != "mqtt": // [MQTT-6.0.0-4]
		_ = ws.Close()
		return nil, fmt.Errorf("mqtt: %s opens a WebSocket, but not for MQTT: check host, port and path, which is /mqtt at many brokers", c.broker)
	}
	return &webSocket{Conn: ws}, nil
}

// webSocket is the stream of bytes in the binary messages of a WebSocket. It has one reader and one writer.
type webSocket struct {
	*websocket.Conn
	message io.Reader  // what is left of it is read next; nil before the first
	writing sync.Mutex // the library does not guard its write deadline
}

// Read passes over the limits of messages, which are not those of packets [MQTT-6.0.0-2].
func (w *webSocket) Read(p []byte) (int, error) {
	for {
		if w.message == nil {
			_, message, err := w.NextReader()
			if err != nil {
				return 0, ended(err)
			}
			w.message = message
		}
		n, err := w.message.Read(p)
		if errors.Is(err, io.EOF) {
			w.message = nil
			if err = nil; n == 0 && len(p) > 0 {
				continue
			}
		}
		return n, ended(err)
	}
}

// ended turns the end of a WebSocket for no reason into that of a stream.
func ended(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure) {
		return io.EOF
	}
	return err
}

func (w *webSocket) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *webSocket) SetDeadline(t time.Time) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	return errors.Join(w.SetReadDeadline(t), w.SetWriteDeadline(t))
}
