package embedded

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
	mqtt "github.com/mochi-mqtt/server/v2"
)

// client connects to the broker and puts what it receives into the channel.
func client(t *testing.T, s *Server, id string, session uint32) (*paho.Client, <-chan *paho.Publish) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.URL(), "mqtt://"), patience)
	must(t, err)
	got := make(chan *paho.Publish, 1000)
	c := paho.NewClient(paho.ClientConfig{ClientID: id, Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) { got <- p.Packet; return true, nil },
	}})
	max := uint16(65535)
	if _, err := c.Connect(t.Context(), &paho.Connect{ClientID: id, KeepAlive: 30, CleanStart: session == 0,
		Properties: &paho.ConnectProperties{SessionExpiryInterval: &session, ReceiveMaximum: &max, RequestProblemInfo: true}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Disconnect(&paho.Disconnect{}) // the broker may be gone
		conn.Close()
		<-c.Done()
	})
	return c, got
}

func subscribe(t *testing.T, c *paho.Client, filters ...string) {
	t.Helper()
	s := new(paho.Subscribe)
	for _, f := range filters {
		s.Subscriptions = append(s.Subscriptions, paho.SubscribeOptions{Topic: f, QoS: 1, RetainAsPublished: true})
	}
	if _, err := c.Subscribe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func retain(t *testing.T, c *paho.Client, topic, payload string, expiry uint32) {
	t.Helper()
	p := &paho.Publish{Topic: topic, QoS: 1, Retain: true, Payload: []byte(payload), Properties: &paho.PublishProperties{
		ContentType: "application/json", ResponseTopic: "r", CorrelationData: []byte{0, 1, 255},
		User: paho.UserProperties{{Key: "id", Value: "1"}, {Key: "id", Value: "2"}},
	}}
	one := byte(1)
	p.Properties.PayloadFormat = &one
	if expiry > 0 {
		p.Properties.MessageExpiry = &expiry
	}
	if _, err := c.Publish(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// retained fetches the retained messages under filter; a marker published afterwards ends the list.
func fetch(t *testing.T, s *Server, filter string) map[string]*paho.Publish {
	t.Helper()
	c, got := client(t, s, fmt.Sprintf("fetch-%d", time.Now().UnixNano()), 0)
	subscribe(t, c, "marker", filter) // at once: mochi refuses a packet id that it uses itself for a message to us
	// On the same connection: from another it may overtake the retained messages of mochi.
	if _, err := c.Publish(t.Context(), &paho.Publish{Topic: "marker", Payload: []byte("m")}); err != nil {
		t.Fatal(err)
	}
	all := map[string]*paho.Publish{}
	for {
		select {
		case p := <-got:
			if p.Topic == "marker" {
				return all
			}
			all[p.Topic] = p
		case <-time.After(patience):
			t.Fatal("the marker does not come")
		}
	}
}

// mosquitto keeps retained messages with all their properties over a clean stop, and the end of those that expire.
func TestMosquittoKeepsRetainedMessages(t *testing.T) {
	dir := t.TempDir()
	start := func() *Server {
		s, err := StartMosquitto(t.Context(), MosquittoOptions{Dir: dir})
		return stopAtEnd(t, s, err)
	}
	s := start()
	c, _ := client(t, s, "writer", 0)
	retain(t, c, "a/stays", "one", 0)
	retain(t, c, "a/expires", "two", 2)
	retain(t, c, "a/long", "three", 3600)
	retain(t, c, "a/deleted", "four", 0)
	retain(t, c, "a/deleted", "", 0)
	retain(t, c, "a/stays", "five", 0)
	must(t, s.Stop())
	s = start()
	all := fetch(t, s, "a/#")
	p := all["a/stays"]
	if p == nil || string(p.Payload) != "five" || !p.Retain || p.QoS != 1 {
		t.Fatalf("a/stays: %v", p)
	}
	if pr := p.Properties; pr.ContentType != "application/json" || pr.ResponseTopic != "r" || string(pr.CorrelationData) != "\x00\x01\xff" ||
		pr.PayloadFormat == nil || *pr.PayloadFormat != 1 || !slices.Equal(pr.User, paho.UserProperties{{Key: "id", Value: "1"}, {Key: "id", Value: "2"}}) || pr.MessageExpiry != nil {
		t.Errorf("properties: %+v", pr)
	}
	if p := all["a/long"]; p == nil || p.Properties.MessageExpiry == nil || *p.Properties.MessageExpiry > 3600 || *p.Properties.MessageExpiry < 3500 {
		t.Errorf("a/long: %v", p)
	}
	if p := all["a/deleted"]; p != nil {
		t.Errorf("a/deleted: %v", p)
	}
	eventually(t, "expiry", func() bool { return fetch(t, s, "a/#")["a/expires"] == nil })
	if fetch(t, s, "a/#")["a/stays"] == nil {
		t.Error("a message without expiry expired")
	}
}

// A killed in-process broker is there again on the same address, without what was retained, and no connection outlives it.
func TestMochiKilled(t *testing.T) {
	s, err := StartMochi(t.Context(), MochiOptions{})
	stopAtEnd(t, s, err)
	c, _ := client(t, s, "writer", 0)
	retain(t, c, "t", "v", 0)
	if fetch(t, s, "t")["t"] == nil {
		t.Error("nothing is retained")
	}
	must(t, s.Kill())
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Error("the connection lives on")
	}
	must(t, s.Restart(t.Context()))
	if p := fetch(t, s, "t")["t"]; p != nil {
		t.Errorf("after kill and restart: %v", p)
	}
}

// A stop, or a kill, comes to its end also when clients leave at the same moment: then somebody waits for the write lock of the
// broker's table of clients again and again. Often enough for the moment to be met.
func TestMochiStopsWhileClientsLeave(t *testing.T) {
	for name, kill := range map[string]bool{"stop": false, "kill": true} {
		t.Run(name, func(t *testing.T) {
			for range 150 {
				broker, err := serveMochi("127.0.0.1:0")
				must(t, err)
				endWhileLeaving(t, broker, kill)
			}
		})
	}
}

func endWhileLeaving(t *testing.T, broker *mqtt.Server, kill bool) {
	t.Helper()
	var leaving sync.WaitGroup
	over, ended := make(chan struct{}), make(chan error, 1)
	for range 4 {
		leaving.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					broker.Clients.Delete("left")
				}
			}
		})
	}
	go func() { ended <- closeMochi(broker, kill) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it stands still")
	}
	close(over)
	leaving.Wait()
}

// Shared subscriptions reach one of the group. With mosquitto, everything for a client that was away arrives, in order: no limit drops any.
// mochi promises neither: it resends in any order and may lose what is published while a client is going.
func TestBrokersShareAndQueue(t *testing.T) {
	for kind, start := range map[string]func() (*Server, error){
		"mosquitto": func() (*Server, error) { return StartMosquitto(t.Context(), MosquittoOptions{}) },
		"mochi":     func() (*Server, error) { return StartMochi(t.Context(), MochiOptions{}) },
	} {
		t.Run(kind, func(t *testing.T) {
			s, err := start()
			stopAtEnd(t, s, err)
			a, gotA := client(t, s, "a", 0)
			b, gotB := client(t, s, "b", 0)
			subscribe(t, a, "$share/g/s/#")
			subscribe(t, b, "$share/g/s/#")
			w, _ := client(t, s, "w", 0)
			for i := range 100 {
				if _, err := w.Publish(t.Context(), &paho.Publish{Topic: "s/x", QoS: 1, Payload: fmt.Append(nil, i)}); err != nil {
					t.Fatal(err)
				}
			}
			seen := map[string]int{}
			for range 100 {
				select {
				case p := <-gotA:
					seen[string(p.Payload)]++
				case p := <-gotB:
					seen[string(p.Payload)]++
				case <-time.After(patience):
					t.Fatalf("only %d arrived", len(seen))
				}
			}
			if len(seen) != 100 {
				t.Errorf("%d different messages", len(seen))
			}
			if kind == "mochi" {
				return
			}
			away, _ := client(t, s, "away", 600)
			subscribe(t, away, "q/#")
			must(t, away.Disconnect(&paho.Disconnect{}))
			<-away.Done()
			const n = 900
			for i := range n {
				if _, err := w.Publish(t.Context(), &paho.Publish{Topic: "q/x", QoS: 1, Payload: fmt.Append(nil, i)}); err != nil {
					t.Fatal(err)
				}
			}
			_, got := client(t, s, "away", 600)
			for i := range n {
				select {
				case p := <-got:
					if string(p.Payload) != fmt.Sprint(i) {
						t.Fatalf("message %s at place %d", p.Payload, i)
					}
				case <-time.After(patience):
					t.Fatalf("only %d of %d arrived", i, n)
				}
			}
		})
	}
}

func TestMosquittoHost(t *testing.T) {
	for host, want := range map[string]string{"": "mqtt://127.0.0.1:1", "0.0.0.0": "mqtt://127.0.0.1:1", "::": "mqtt://127.0.0.1:1", "::1": "mqtt://[::1]:1", "plant.example": "mqtt://plant.example:1"} {
		if got := mqttURL(host, 1); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
	s, err := StartMosquitto(t.Context(), MosquittoOptions{Host: "127.0.0.2"})
	stopAtEnd(t, s, err)
	if !strings.HasPrefix(s.URL(), "mqtt://127.0.0.2:") {
		t.Error(s.URL())
	}
	c, _ := client(t, s, "c", 0)
	subscribe(t, c, "#")
	port, err := strconv.Atoi(s.URL()[strings.LastIndexByte(s.URL(), ':')+1:])
	must(t, err)
	if _, err := StartMosquitto(t.Context(), MosquittoOptions{Host: "127.0.0.2", Port: port}); err == nil || !inUse(err) {
		t.Errorf("the same port: %v", err)
	}
}
