package jobcontrol_test

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

// captured is one line of mqtt-messages.jsonl: what the original sent or was sent.
type captured struct {
	Line                       int
	Topic, Payload             string
	QoS                        byte
	Retain                     bool
	ContentType, ResponseTopic string
	CorrelationData            string // hex
	MessageExpiryInterval      int
	PayloadFormatIndicator     int
	UserProperty               [][2]string
}

func (c captured) user(name string) string {
	for _, u := range c.UserProperty {
		if u[0] == name {
			return u[1]
		}
	}
	return ""
}

func (c captured) message(t testing.TB) mqtt.Message {
	t.Helper()
	correlation, err := hex.DecodeString(c.CorrelationData)
	if err != nil {
		t.Fatal(err)
	}
	m := mqtt.Message{
		Topic: c.Topic, Payload: []byte(c.Payload), QoS: c.QoS, Retain: c.Retain, ContentType: c.ContentType, ResponseTopic: c.ResponseTopic,
		CorrelationData: correlation, Expiry: time.Duration(c.MessageExpiryInterval) * time.Second, UTF8: c.PayloadFormatIndicator == 1,
	}
	for _, u := range c.UserProperty {
		m.User = append(m.User, mqtt.UserProperty{Name: u[0], Value: u[1]})
	}
	return m
}

func readLines(t testing.TB, file string, each func(n int, line []byte)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		each(n, lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// notCompared names each captured line that is not compared here, and why.
var notCompared = map[int]string{
	8: published, 39: published, 40: published, 42: published, 43: published, 45: published, 46: published, 47: published, 48: published,
	50: published, 51: published, 53: published, 54: published, 55: published, 57: published, 58: published, 60: published, 62: published,
	64: published, 65: published, 67: published, 68: published, 70: published, 71: published,
	41: unasked, 44: unasked, 49: unasked, 52: unasked, 56: unasked, 59: unasked, 61: unasked, 63: unasked,
	66: unasked + "; Takt would also refuse it: the id exists and is not in EndState",
	69: unasked + "; Takt would also refuse it: the order belongs to another scope",
	72: unasked + "; TestCapturedResponse asks it", 73: unasked + "; TestCapturedResponse asks it", 74: unasked + "; its outcome is tested by TestQueryByState", 75: unasked + "; its outcome is tested by TestQueryByState",
}

const (
	published = "a retained topic: package publisher tests it"
	unasked   = "a reply whose request was not captured"
)

// differs says what Takt decides differently for a line that is compared.
type differs struct {
	why    string
	change func(c *captured)
}

// decided are those lines. Every status event has QoS 1 instead of 0, and refusals say their reason, both besides.
var decided = map[int]differs{
	1:  {"no expiry, so that the retained copy stays; QoS 1", metadataDiffers},
	38: {"no expiry, so that the retained copy stays; QoS 1", metadataDiffers},
	28: {"Abort writes a response also without a recipe, and the event carries it, as OPC 10031-4 wants", func(c *captured) {
		c.Payload = strings.Replace(c.Payload, `},"JobState":`, `},"JobResponse":{"JobResponseID":"JO-7-response","JobOrderID":"JO-7","EndTime":"TIME","JobState":[{"StateText":{"Locale":"en","Text":"Aborted"},"StateNumber":6}]},"JobState":`, 1)
	}},
}

func metadataDiffers(c *captured) {
	c.QoS, c.MessageExpiryInterval = 1, 0
	c.UserProperty = slices.DeleteFunc(c.UserProperty, func(u [2]string) bool { return u[0] == "expiryinterval" })
	c.CorrelationData = ""
}

// timestamps stand for each other: theirs have no offset or +00:00, ours are UTC with Z.
var timestamps = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|\+00:00)?`)

// normal is a message without what differs from run to run.
func normal(m mqtt.Message) mqtt.Message {
	m.Payload = timestamps.ReplaceAll(m.Payload, []byte("TIME"))
	m.User = slices.Clone(m.User)
	for i, u := range m.User {
		switch u.Name {
		case "id":
			m.User[i].Value = "ID"
		case "recordedtime":
			m.User[i].Value = timestamps.ReplaceAllString(u.Value, "TIME")
		}
	}
	return m
}

// withoutReason takes away what refusals say besides, after checking that only refusals do.
func withoutReason(t *testing.T, m mqtt.Message) mqtt.Message {
	t.Helper()
	var kept []mqtt.UserProperty
	reason := false
	for _, u := range m.User {
		if strings.HasPrefix(u.Name, "mdcserror") {
			reason = true
			continue
		}
		kept = append(kept, u)
	}
	if ok := strings.Contains(string(m.Payload), `"ReturnStatus":1}`) || !strings.Contains(string(m.Payload), "ReturnStatus"); ok == reason {
		t.Errorf("%s with reason: %v", m.Payload, reason)
	}
	m.User = kept
	return m
}

// Every captured northbound command is replayed, and what the receiver makes of it compared with what the original made of it: topic,
// properties, user properties in their order, and the bytes of the body.
func TestCapturedMessages(t *testing.T) {
	p := plantOn(t, testenv.Redis(t), jobstore.Options{EventExpiry: time.Minute}, jobcontrol.Options{MessageExpiry: time.Minute})
	var lines []captured
	readLines(t, "../mqtt/testdata/captured.jsonl", func(n int, line []byte) {
		c := captured{Line: n}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, c)
	})

	made := make(map[string]mqtt.Message) // kind of message and its cause -> what the receiver made
	for _, c := range lines {
		if !strings.HasSuffix(c.Topic, "/commands") {
			continue
		}
		_, reply := p.receive(t, c.message(t))
		reply.Delivery.ResponseTopic = "app/jobs/responses/pod-1" // by mqtt.Server
		made["reply to "+c.user("id")] = mqtt.Encode(reply.Delivery.Topic, reply)
		if _, isConfig := isa95.ConfigByTypeID(c.user("type")); isConfig {
			wantStatus(t, reply, isa95.NoError) // the original did not answer
		}
	}
	for _, e := range p.events(t) {
		delete(e.Extensions, "sequence") // the original does not number its events
		made["event of "+e.CausationID] = mqtt.Encode("app/jobs/"+e.Subject+"/events", e)
	}
	metadata, err := jobcontrol.Options{Source: "urn:example:dcs", TopicPrefix: "app/jobs"}.Metadata(time.Now(), "", "")
	if err != nil {
		t.Fatal(err)
	}

	compared := 0
	for _, c := range lines {
		if _, skip := notCompared[c.Line]; skip || strings.HasSuffix(c.Topic, "/commands") {
			continue
		}
		var got mqtt.Message
		ok := true
		switch {
		case strings.HasSuffix(c.Topic, "/metadata"):
			got = metadata
			got.CorrelationData, got.User = nil, slices.Clone(got.User)
			for i, u := range got.User {
				if u.Name == "correlationid" {
					got.User[i].Value = c.user("correlationid")
				}
			}
		case strings.HasSuffix(c.Topic, "/events"):
			got, ok = made["event of "+c.user("causationid")]
			delete(made, "event of "+c.user("causationid"))
			c.QoS = 1
		default:
			got, ok = made["reply to "+c.user("causationid")]
			delete(made, "reply to "+c.user("causationid"))
		}
		if !ok {
			t.Errorf("line %d: nothing was made of it, and it is not in the table", c.Line)
			continue
		}
		if d, ok := decided[c.Line]; ok {
			d.change(&c)
		}
		if diff := cmp.Diff(normal(c.message(t)), normal(withoutReason(t, got)), byText); diff != "" {
			t.Errorf("line %d (- captured, + made):\n%s", c.Line, diff)
		}
		compared++
	}
	for what := range made {
		if !isConfigReply(lines, what) {
			t.Errorf("%s was made and not captured", what)
		}
	}
	commands := 0
	for _, c := range lines {
		if strings.HasSuffix(c.Topic, "/commands") {
			commands++
		}
	}
	if total := commands + compared + len(notCompared); total != len(lines) {
		t.Errorf("%d commands, %d lines compared and %d not, of %d", commands, compared, len(notCompared), len(lines))
	}
	t.Logf("%d commands replayed, %d messages compared, %d not", commands, compared, len(notCompared))
}

// The responses of the captures, JR-20 and others, come from a station, and both queries find them as the original answered: but for times that Takt fills in.
func TestCapturedResponse(t *testing.T) {
	p := plantOn(t, testenv.Redis(t), jobstore.Options{EventExpiry: time.Minute}, jobcontrol.Options{MessageExpiry: time.Minute})
	for n, start := range map[string]string{"20": "", "21": "", "23": `"StartTime":"2026-05-04T06:00:00Z",`} {
		p.handedOver(t, "JO-"+n)
		p.says(t, isa95.Run, "JO-"+n, isa95.NoError)
		p.says(t, isa95.End, "JO-"+n, isa95.NoError)
		p.says(t, isa95.ReceiveJobResponse, `{"JobResponseID":"JR-`+n+`","JobOrderID":"JO-`+n+`",`+start+`"JobResponseData":[{"ID":"torque","Value":12.5}]}`, isa95.NoError)
	}
	bodies := map[int]string{72: `{"JobOrderID":"JO-23"}`, 73: `{"JobOrderState":[{"StateText":{"Text":"Ended"}},{"StateText":{"Text":"Completed"}}]}`}
	filledIn := regexp.MustCompile(`"(Start|End)Time":"TIME",`)
	readLines(t, "../mqtt/testdata/captured.jsonl", func(n int, line []byte) {
		c := captured{Line: n}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		body, ok := bodies[n]
		if !ok {
			return
		}
		want := c.message(t)
		ask := command(c.user("type"), body)
		ask.ID, ask.CorrelationID, ask.Delivery.ResponseTopic, ask.Delivery.CorrelationData = c.user("causationid"), c.user("correlationid"), c.Topic, want.CorrelationData
		reply := p.answer(t, ask)
		reply.Delivery.ResponseTopic = "app/jobs/responses/pod-1" // by mqtt.Server
		got := normal(mqtt.Encode(reply.Delivery.Topic, reply))
		if !filledIn.Match(got.Payload) {
			t.Errorf("line %d: no times in %s", n, got.Payload)
		}
		got.Payload = filledIn.ReplaceAll(got.Payload, nil)
		if diff := cmp.Diff(normal(want), got, byText); diff != "" {
			t.Errorf("line %d (- captured, + made):\n%s", n, diff)
		}
	})
}

// byText shows payloads as text in differences.
var byText = cmp.Transformer("text", func(b []byte) string { return string(b) })

func isConfigReply(lines []captured, what string) bool {
	return slices.ContainsFunc(lines, func(c captured) bool {
		_, config := isa95.ConfigByTypeID(c.user("type"))
		return config && what == "reply to "+c.user("id")
	})
}

// redisNotCompared says why a captured Redis command is not compared.
var redisNotCompared = map[string]string{
	"FT.INFO":   "no search index on plain Redis",
	"FT.SEARCH": "no search index on plain Redis: the response id follows from the order id, and sets by state",
	"JSON.GET":  "a read; documents are strings, read by GET",
	"SISMEMBER": "a read, made by Load in one pipeline",
	"MULTI":     "one script instead, which checks before it writes",
	"EXEC":      "one script instead",
	"HGETALL":   "of the publisher",
	"SMEMBERS":  "of the publisher",
	"HSET":      "of the publisher",
	"ZRANGE":    "of the publisher",
	"INCRBY":    "of the publisher",
	"JSON.SET":  "", // compared below, as are the others without a reason
	"ZADD":      "",
	"XADD":      "",
	"SADD":      "",
	"SET":       "",
}

// What the original wrote to Redis for the captured commands, Takt writes too: the same keys, documents, scores and fields, but
// for what Takt decides.
func TestCapturedRedis(t *testing.T) {
	env := testenv.Redis(t)
	p := plantOn(t, env, jobstore.Options{}, jobcontrol.Options{})
	var commands [][]string // of the receiver, connection 6
	readLines(t, "testdata/redis-commands.jsonl", func(n int, line []byte) {
		var words []any
		if err := json.Unmarshal(line, &words); err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, w := range words[1:] {
			text = append(text, strings.Replace(w.(string), "mdcs:", p.keys.Prefix()+":", 1))
		}
		if _, known := redisNotCompared[text[0]]; !known {
			t.Errorf("line %d: %s is neither compared nor in the table", n, text[0])
		}
		if words[0].(float64) == 6 {
			commands = append(commands, text)
		}
	})
	readLines(t, "../mqtt/testdata/captured.jsonl", func(n int, line []byte) {
		c := captured{Line: n}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(c.Topic, "/commands") {
			return
		}
		_, reply := p.receive(t, c.message(t))
		commands = p.compareRedis(t, commands, c, reply)
	})
	if len(commands) != 0 {
		t.Errorf("left over: %q", commands)
	}
}

// compareRedis compares what one command of the capture wrote with what is stored now, and returns what is left.
func (p *plant) compareRedis(t *testing.T, commands [][]string, c captured, reply cloudevent.Event) [][]string {
	t.Helper()
	for i, words := range commands {
		switch words[0] {
		case "SET":
			if !strings.Contains(words[1], "cededupe") {
				if text, err := p.redis(t, "GET", words[1]).ToString(); err != nil || text != words[2] {
					t.Errorf("line %d: %s is %q, want %q", c.Line, words[1], text, words[2])
				}
				continue
			}
			if i > 0 {
				return commands[i:] // the next command begins
			}
			// A key of its own kind, if the command changed something; in it is the reply, kept for 2 h instead of 10 min.
			levels := strings.Split(c.Topic, "/")
			key := p.keys.Dedupe(levels[len(levels)-2], c.user("source"), c.user("id"))
			_, query := isa95.MethodByTypeID(c.user("type"))
			query = query && strings.Contains(c.user("type"), "Request")
			if stored, want := yes(t, p, "EXISTS", key), status(t, reply) == isa95.NoError && !query; stored != want {
				t.Errorf("line %d: %s exists: %v", c.Line, key, stored)
			}
		case "JSON.SET":
			doc, err := p.redis(t, "GET", words[1]).ToString()
			if err != nil {
				t.Fatalf("line %d: %s: %v", c.Line, words[1], err)
			}
			if diff := cmp.Diff(bare(t, words[3]), bare(t, doc)); diff != "" {
				t.Errorf("line %d: %s:\n%s", c.Line, words[1], diff)
			}
			var ours, theirs struct {
				DataSchema string `json:"_dataschema"`
			}
			if err := errors.Join(json.Unmarshal([]byte(doc), &ours), json.Unmarshal([]byte(words[3]), &theirs)); err != nil || ours != theirs || ours.DataSchema == "" {
				t.Errorf("line %d: _dataschema is %q, want %q, %v", c.Line, ours, theirs, err)
			}
		case "SADD":
			if !yes(t, p, "SISMEMBER", words[1], words[2]) {
				t.Errorf("line %d: %s does not hold %s", c.Line, words[1], words[2])
			}
		case "ZADD":
			score, err := p.redis(t, "ZSCORE", words[1], words[3]).ToString()
			if strings.HasSuffix(c.user("type"), "Clear.v2") {
				if !isNil(err) {
					t.Errorf("line %d: EndState leaves all indexes at once", c.Line)
				}
			} else if err != nil || score != words[2] {
				t.Errorf("line %d: score %q, %v, want %s", c.Line, score, err, words[2])
			}
		case "XADD":
			fields := p.lastEntry(t, words[1], !strings.HasSuffix(c.user("type"), "Abort.v2"))
			want := slices.Clone(words[6:])
			ts := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`)
			if len(fields) != 8 || !ts.MatchString(fields[7]) || !ts.MatchString(want[7]) {
				t.Fatalf("line %d: %s has %q, want %q", c.Line, words[1], fields, want)
			}
			if !slices.Equal(fields[:7], want[:7]) {
				t.Errorf("line %d: %s has %q, want %q", c.Line, words[1], fields, want)
			}
		}
	}
	return nil
}

// lastEntry is the last entry of a stream, fields and values in their order; or the one before, for Abort, which writes a
// ResultUpdate besides.
func (p *plant) lastEntry(t *testing.T, stream string, last bool) []string {
	t.Helper()
	entries, err := p.redis(t, "XREVRANGE", stream, "+", "-", "COUNT", "2").ToArray()
	if err != nil || len(entries) == 0 {
		t.Fatalf("%s: %v", stream, err)
	}
	entry := entries[0]
	if !last {
		entry = entries[1]
	}
	pair, err := entry.ToArray()
	if err != nil {
		t.Fatal(err)
	}
	fields, err := pair[1].AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// bare is a document without the metadata of storage, at every depth: theirs is on every nested object, ours at the root
// only, where an order has its scope besides.
func bare(t *testing.T, doc string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if strings.HasPrefix(name, "_") {
					delete(v, name)
				} else {
					v[name] = strip(member)
				}
			}
		case []any:
			for i := range v {
				v[i] = strip(v[i])
			}
		}
		return v
	}
	return strip(v)
}
