package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// link is one network connection of a Conn, from CONNACK to its end. A nil link is down.
type link struct {
	client  *paho.Client
	session *session
	facts   Facts
	inflow  *inflow
	failed  chan error // what the library says when the connection breaks; capacity 1
	ending  ending     // set by whyLost
	wire    *wire

	dispatching sync.WaitGroup
}

func (l *link) up() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.session.lost:
		return false
	default:
		return true
	}
}

// connect makes one attempt.
func (c *Conn) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.ConnectTimeout)
	defer cancel()
	network, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = network.SetDeadline(deadline) // also bounds the writing of CONNECT

	l := &link{session: newSession(c.begin), inflow: newInflow(c.budget), failed: make(chan error, 1)}
	// The library sees no deliveries (see wire): it needs no handler for them.
	l.wire = newWire(network, l.arrived, l.session.acknowledged)
	l.client = paho.NewClient(paho.ClientConfig{
		Conn:               l.wire,
		Session:            l.session,
		PacketTimeout:      max(c.o.ConnectTimeout, c.o.PublishTimeout),
		OnServerDisconnect: func(*paho.Disconnect) {}, // the session has it
		OnClientError: func(err error) {
			select {
			case l.failed <- err:
			default:
			}
		},
	})
	ack, err := l.client.Connect(ctx, c.connectPacket())
	switch {
	case err == nil:
	case l.wire.old.Load():
		return nil, &ConnectError{codeUnsupportedProtocol, ErrNoMQTT5.Error()}
	case ack != nil && ack.ReasonCode >= 0x80:
		return nil, &ConnectError{ack.ReasonCode, reason(ack.ReasonCode, ack.Properties.ReasonString)}
	case ack == nil && (l.wire.heard.Load() != 0 || ctx.Err() == nil): // something else than CONNACK came, or the end
		return nil, fmt.Errorf("mqtt: connect %s: no CONNACK came (%w): %w", c.broker, err, ErrNoMQTT5)
	default:
		return nil, fmt.Errorf("mqtt: connect %s: %w", c.broker, err)
	}
	_ = network.SetDeadline(time.Time{})
	l.facts = factsOf(&c.o, c.broker.String(), ack)
	l.dispatching.Go(func() { l.inflow.run(func(a arrival) { c.dispatch(l, a) }) })
	return l, nil
}

// arrived takes a delivery from the wire.
func (l *link) arrived(a arrival) {
	if a.QoS > 0 {
		l.session.arrived(a.id)
	}
	l.inflow.put(a)
}

// end waits until the library and the dispatcher have let go of the connection, which is over or
// about to be.
func (l *link) end() {
	l.inflow.end()
	<-l.client.Done()
	l.dispatching.Wait()
}

func (c *Conn) dial(ctx context.Context) (net.Conn, error) {
	var cfg *tls.Config // nil: without TLS
	if secure(c.broker) {
		var err error
		if cfg, err = c.o.tls(c.broker.Hostname()); err != nil {
			return nil, err
		}
	}
	if c.broker.Scheme == "ws" || c.broker.Scheme == "wss" {
		return c.dialWebSocket(ctx, cfg)
	}
	if cfg == nil {
		var d net.Dialer
		network, err := d.DialContext(ctx, "tcp", c.broker.Host)
		if err != nil {
			return nil, fmt.Errorf("mqtt: %w", err)
		}
		return network, nil
	}
	d := tls.Dialer{Config: cfg}
	network, err := d.DialContext(ctx, "tcp", c.broker.Host)
	if err != nil {
		return nil, fmt.Errorf("mqtt: tls: %w", unlike(err))
	}
	return network, nil
}

// unlike adds ErrNoMQTT5 to the error of a handshake, of TLS or WebSocket, if the server answered with something else, or closed the connection.
func unlike(err error) error {
	var (
		op          *net.OpError
		certificate *tls.CertificateVerificationError
		timeout     net.Error
	)
	switch {
	case errors.As(err, &op) && op.Op != "read", errors.As(err, &certificate), errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrNoMQTT5)
}

func (c *Conn) connectPacket() *paho.Connect {
	expiry := seconds(c.o.SessionExpiry)
	size := uint32(maxPacket)
	// Not saying 65535 is saying it [MQTT-3.1.2.11.3]. The embedded broker keeps no count then,
	// and its count may stop it for ever: it takes a read lock twice, around each packet.
	var window *uint16
	if c.o.ReceiveMaximum != math.MaxUint16 {
		window = &c.o.ReceiveMaximum
	}
	return &paho.Connect{
		ClientID:     c.o.ClientID,
		CleanStart:   c.o.SessionExpiry == 0,
		KeepAlive:    uint16(seconds(c.o.KeepAlive)),
		UsernameFlag: c.o.Username != "",
		Username:     c.o.Username,
		PasswordFlag: c.o.Password != "",
		Password:     []byte(c.o.Password),
		Properties: &paho.ConnectProperties{
			SessionExpiryInterval: &expiry,
			ReceiveMaximum:        window,
			MaximumPacketSize:     &size,
			RequestProblemInfo:    true, // reason strings, please
		},
	}
}

// disconnect sends the last acknowledgements and says goodbye. forget ends the session at the broker too, unless it holds
// a message that was not acknowledged.
func (l *link) disconnect(forget bool) {
	l.session.acknowledge()
	l.inflow.end() // frees a reader that waits for room
	bye := &paho.Disconnect{ReasonCode: 0}
	if open, _ := l.session.unsettled(); forget && open == 0 {
		now := uint32(0)
		bye.Properties = &paho.DisconnectProperties{SessionExpiryInterval: &now}
	}
	_ = l.client.Disconnect(bye)
	l.end()
}

// whyLost waits until the library has let go of a lost connection and returns its reason.
func (l *link) whyLost() error {
	l.end()
	if bye := l.session.goodbye(); bye != nil {
		words := ""
		if bye.Properties != nil {
			words = bye.Properties.ReasonString
		}
		if bye.ReasonCode == codeTakenOver {
			l.ending = taken
		}
		return fmt.Errorf("mqtt: broker closed the connection: %#02x %s", bye.ReasonCode, reason(bye.ReasonCode, words))
	}
	select {
	case err := <-l.failed:
		if errors.Is(err, io.EOF) {
			l.ending = closed
			return errors.New("mqtt: broker closed the connection without a reason (if it does so often: does another client use this client id?)")
		}
		return fmt.Errorf("mqtt: connection lost: %w", err)
	case <-time.After(time.Second): // the library reports right after Done; this is only a guard
		return errors.New("mqtt: connection lost")
	}
}

// seconds rounds up: half a second must not become 0, which MQTT reads as "at once" or "never".
// The largest value means "for ever" for a session.
func seconds(d time.Duration) uint32 {
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	return uint32(min(max(s, 0), math.MaxUint32))
}
