package embedded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// retained keeps the retained messages of the in-process broker in a file of JSON lines, one per change, the
// last of a topic counting. The hooks that come with the broker lose the expiry over a restart; this one does not.
type retained struct {
	mqtt.HookBase
	topics *mqtt.TopicsIndex

	mu    sync.Mutex
	path  string
	file  *os.File
	lines int // in the file
	log   *slog.Logger
}

// retainedLine is one line of the file. Deleted lines carry only the topic.
type retainedLine struct {
	Topic           string                 `json:"topic"`
	Deleted         bool                   `json:"deleted,omitempty"`
	Payload         []byte                 `json:"payload,omitempty"` // base64
	QoS             byte                   `json:"qos,omitempty"`
	Created         int64                  `json:"created,omitempty"` // unix seconds
	Expires         int64                  `json:"expires,omitempty"` // unix seconds, 0 = never
	ContentType     string                 `json:"content_type,omitempty"`
	ResponseTopic   string                 `json:"response_topic,omitempty"`
	CorrelationData []byte                 `json:"correlation_data,omitempty"` // base64
	UTF8            bool                   `json:"utf8,omitempty"`
	User            []packets.UserProperty `json:"user,omitempty"`
	Origin          string                 `json:"origin,omitempty"` // client id of the publisher
}

// Many more lines than live messages make the file worth writing anew.
const compactAfter = 4096

// openRetained puts what the file holds into topics and begins a new file with just that.
func openRetained(path string, topics *mqtt.TopicsIndex, log *slog.Logger) (*retained, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines, err := readRetained(bytes.NewReader(data), time.Now().Unix())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, l := range lines {
		topics.RetainMessage(l.packet())
	}
	r := &retained{topics: topics, path: path, log: log}
	return r, r.compact()
}

// readRetained returns the last line of every topic that is neither deleted nor expired at now. A torn last line, as a kill
// leaves it, is left out; any other line that cannot be read is an error.
func readRetained(in io.Reader, now int64) (map[string]retainedLine, error) {
	live := map[string]retainedLine{}
	r := bufio.NewReader(in)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if err == io.EOF { // nothing, or a torn line
			return live, nil
		}
		if err != nil {
			return nil, err
		}
		var l retainedLine
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if l.Deleted || l.Expires != 0 && l.Expires <= now {
			delete(live, l.Topic)
		} else {
			live[l.Topic] = l
		}
	}
}

func (l retainedLine) packet() packets.Packet {
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true, Qos: l.QoS},
		TopicName:   l.Topic, Payload: l.Payload, Created: l.Created, Expiry: l.Expires, Origin: l.Origin, ProtocolVersion: 5,
	}
	pk.Properties.ContentType, pk.Properties.ResponseTopic = l.ContentType, l.ResponseTopic
	pk.Properties.CorrelationData, pk.Properties.User = l.CorrelationData, l.User
	pk.Properties.PayloadFormatFlag = l.UTF8
	if l.UTF8 {
		pk.Properties.PayloadFormat = 1
	}
	if l.Expires != 0 {
		pk.Properties.MessageExpiryInterval = uint32(max(l.Expires-time.Now().Unix(), 1))
	}
	return pk
}

func lineOf(pk packets.Packet) retainedLine {
	return retainedLine{
		Topic: pk.TopicName, Payload: pk.Payload, QoS: pk.FixedHeader.Qos, Created: pk.Created, Expires: pk.Expiry, Origin: pk.Origin,
		ContentType: pk.Properties.ContentType, ResponseTopic: pk.Properties.ResponseTopic,
		CorrelationData: pk.Properties.CorrelationData, User: pk.Properties.User,
		UTF8: pk.Properties.PayloadFormatFlag && pk.Properties.PayloadFormat == 1,
	}
}

func (*retained) ID() string { return "retained" }

func (*retained) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnRetainMessage, mqtt.OnRetainedExpired}, b) >= 0
}

// OnRetainMessage notes what is retained now; two publishers of one topic may come here in the other order.
func (r *retained) OnRetainMessage(_ *mqtt.Client, pk packets.Packet, _ int64) { r.note(pk.TopicName) }

// OnRetainedExpired notes the end of a message.
func (r *retained) OnRetainedExpired(topic string) { r.note(topic) }

func (r *retained) note(topic string) {
	if strings.HasPrefix(topic, "$") {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := retainedLine{Topic: topic, Deleted: true}
	if pk, ok := r.topics.Retained.Get(topic); ok {
		l = lineOf(pk)
	}
	if r.file == nil { // closed
		return
	}
	err := r.write(l)
	if err == nil && r.lines > compactAfter && r.lines > 4*r.topics.Retained.Len() {
		err = r.compact()
	}
	if err != nil {
		r.log.Error("retained messages are not kept", "file", r.path, "error", err)
	}
}

func (r *retained) write(l retainedLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	r.lines++
	_, err = r.file.Write(append(text, '\n'))
	return err
}

// compact writes what is retained to a new file, which then takes the place of the old.
func (r *retained) compact() error {
	f, err := os.OpenFile(r.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	old := r.file
	r.file, r.lines = f, 0
	w := bufio.NewWriter(f)
	for topic, pk := range r.topics.Retained.GetAll() {
		if strings.HasPrefix(topic, "$") {
			continue
		}
		text, err := json.Marshal(lineOf(pk))
		if err != nil {
			return err
		}
		w.Write(append(text, '\n'))
		r.lines++
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if old != nil {
		old.Close()
	}
	return os.Rename(r.path+".new", r.path)
}

func (r *retained) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}
