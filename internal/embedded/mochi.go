package embedded

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"math"
	"net"
	"strconv"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"
)

// MochiOptions are those of StartMochi.
type MochiOptions struct {
	Host string // address to listen on; "" = 127.0.0.1
	Port int    // 0 = a free one
}

// StartMochi runs an MQTT 5 broker in this process, for trying Takt out where no mosquitto is installed. Sessions and retained
// messages are in memory, and end with it. Clients should use one connection for receiving and
// another for publishing, a receive maximum of 65535, and ask for problem information, for it mixes up the packet ids of the two directions,
// stalls on smaller windows, and leaves user properties out for those who do not. It acknowledges a message before it hands it out, and
// loses what it hands out while a new connection takes the receiver's session over.
func StartMochi(ctx context.Context, o MochiOptions) (*Server, error) {
	return onFreePort("mochi", o.Port, func(port int) (*Server, error) {
		addr := net.JoinHostPort(cmp.Or(o.Host, "127.0.0.1"), strconv.Itoa(port))
		return run(ctx, "mochi", mqttURL(o.Host, port), &inside{open: func() (func(bool) error, error) {
			broker, err := serveMochi(addr)
			return func(kill bool) error { return closeMochi(broker, kill) }, err
		}}, nil)
	})
}

func serveMochi(addr string) (*mqtt.Server, error) {
	broker := mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler), Capabilities: capabilities(), SysTopicResendInterval: math.MaxInt32})
	if err := broker.AddHook(new(letIn), nil); err != nil {
		return nil, err
	}
	if err := broker.AddListener(listeners.NewTCP(listeners.Config{ID: "tcp", Address: addr})); err != nil {
		return nil, err
	}
	return broker, broker.Serve()
}

// capabilities are the limits of the stock broker lifted where they lose messages without a word.
func capabilities() *mqtt.Capabilities {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumMessageExpiryInterval = 0 // else every message gets an expiry of a day, retained ones too
	c.ReceiveMaximum = math.MaxUint16
	c.MaximumInflight = math.MaxUint16
	c.MaximumClientWritesPending = 64 << 10
	c.MinimumProtocolVersion = 4
	c.Compatibilities.NoInheritedPropertiesOnAck = true
	return c
}

// closeMochi says goodbye to all clients, or cuts their connections before the broker can, and ends the broker. The broker's own goodbye would take the read lock of its table of
// clients twice, one inside the other: if a client leaves in between, that waits for the write lock, the second read
// lock waits for it, and Close never returns. A listener is closed only once, so Close finds nobody to say goodbye to.
func closeMochi(broker *mqtt.Server, kill bool) error {
	if kill {
		for _, c := range broker.Clients.GetAll() {
			if c.Net.Conn != nil {
				c.Net.Conn.Close()
			}
		}
	}
	broker.Listeners.CloseAll(func(string) {
		for _, c := range broker.Clients.GetAll() {
			_ = broker.DisconnectClient(c, packets.ErrServerShuttingDown)
		}
	})
	return broker.Close()
}

// letIn lets everybody do everything: the broker listens on this machine only, unless its user says otherwise.
type letIn struct{ mqtt.HookBase }

func (*letIn) ID() string { return "let-in" }

func (*letIn) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnectAuthenticate, mqtt.OnACLCheck}, b) >= 0
}

func (*letIn) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

func (*letIn) OnACLCheck(*mqtt.Client, string, bool) bool { return true }
