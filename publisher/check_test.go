package publisher_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/publisher"
)

// has is a broker with these messages retained.
func has(retained []mqtt.Message) publisher.Retained {
	return func(_ context.Context, take func(mqtt.Message), _ ...string) error {
		for _, m := range retained {
			take(m)
		}
		return nil
	}
}

// Each difference between store, publisher and broker is told with its topic and key.
func TestCheck(t *testing.T) {
	p := newPlant(t)
	i := p.start()
	p.fill()
	p.move(scope, "GONE", isa95.Store)
	p.inSync()
	i.stop()
	options := publisher.Options{TopicPrefix: prefix}
	retained, err := p.reader.Retained(t.Context(), publisher.Filters(prefix)...)
	testenv.Must(t, err)
	if list, err := publisher.Check(t.Context(), p.store, has(retained), options, nil); err != nil || len(list) != 0 {
		t.Fatalf("in sync: %v, %v", list, err)
	}
	without := func(topic string) []mqtt.Message {
		return slices.DeleteFunc(slices.Clone(retained), func(m mqtt.Message) bool { return m.Topic == prefix+"/"+topic })
	}
	with := func(topic, payload string) []mqtt.Message {
		return append(without(topic), mqtt.Message{Topic: prefix + "/" + topic, Payload: []byte(payload), Expiry: time.Hour})
	}
	index := ""
	for _, m := range retained {
		if strings.HasSuffix(m.Topic, "/state-index") {
			index = string(m.Payload)
		}
	}
	for _, c := range []struct {
		what     string
		before   func()
		retained []mqtt.Message
		want     string
	}{
		{"nothing retained", nil, nil, "topic app/jobs/m42/order/OVER is missing"},
		{"an order is missing", nil, without("m42/order/WAITS"), "topic app/jobs/m42/order/WAITS is missing"},
		{"a result is missing", nil, without("m42/result/OVER"), "topic app/jobs/m42/result/OVER is missing"},
		{"an order differs", nil, with("m42/order/RUNS", `{"JobOrderID":"RUNS","Priority":9}`), "topic app/jobs/m42/order/RUNS holds something else"},
		{"a result differs", nil, with("m42/result/OVER", `{"JobOrderID":"OVER"}`), "topic app/jobs/m42/result/OVER holds something else"},
		{"a result too many", nil, with("m42/result/RUNS", `{"JobOrderID":"RUNS"}`), "topic app/jobs/m42/result/RUNS is retained and should not be"},
		{"an order left over", nil, with("m42/order/OLD", `{}`), "topic app/jobs/m42/order/OLD is left over"},
		{"a foreign scope", nil, with("other/order/OLD", `{}`), "1 retained topics are of a scope that the store does not have"},
		{"no index", nil, without("m42/state-index"), "topic app/jobs/m42/state-index is missing"},
		{"an index that is none", nil, with("m42/state-index", `[]`), "topic app/jobs/m42/state-index cannot be read"},
		{"an index of another content", nil, with("m42/state-index", strings.Replace(index, "Running", "Aborted", 1)), "state-index lists other"},
		{"an index of another time", nil, with("m42/state-index", strings.Replace(index, `"seq":`, `"seq":7`, 1)), "state-index has seq 7"},
		{"not acknowledged", func() { p.redisDo("HDEL", p.keys.PubDone("m42"), "RUNS") }, retained, "topic app/jobs/m42/order/RUNS is right, and the publisher has not noted it"},
		{"not listed", func() { p.redisDo("HSET", p.keys.PubDone("m42"), "STRAY", `{"order":"x"}`) }, retained, "does not name STRAY, which was published"},
		{"gone", func() { p.move(scope, "GONE", isa95.Cancel) }, retained, "topic app/jobs/m42/order/GONE is left over: the order was cleared or cancelled"},
		{"gone and deleted", nil, without("m42/order/GONE"), "has GONE as gone"},
		{"garbage", func() { p.redisDo("HSET", p.keys.PubIndex("m42"), "BAD", `{`) }, retained, `"BAD": `},
		{"another type", func() { p.redisDo("DEL", p.keys.PubDone("m42")); p.redisDo("SET", p.keys.PubDone("m42"), "x") }, retained, "cannot be read"},
	} {
		if c.before != nil {
			c.before()
		}
		list, err := publisher.Check(t.Context(), p.store, has(c.retained), options, nil)
		testenv.Must(t, err)
		found := c.want == "" && len(list) == 0
		for _, v := range list {
			if v.Key != p.keys.PubIndex("m42") && v.Key != "app/jobs/other" || v.Next == "" {
				t.Errorf("%s: %+v", c.what, v)
			}
			found = found || c.want != "" && strings.Contains(v.Problem, c.want)
		}
		if !found {
			t.Errorf("%s: %v, want %q", c.what, list, c.want)
		}
	}
	if _, err := publisher.Check(t.Context(), p.store, has(nil), publisher.Options{}, nil); err == nil {
		t.Error("Check takes options without a prefix")
	}
	lost := errors.New("lost")
	broken := func(context.Context, func(mqtt.Message), ...string) error { return lost }
	if list, err := publisher.Check(t.Context(), p.store, broken, options, nil); !errors.Is(err, lost) || list != nil {
		t.Errorf("the broker was lost: %v, %v", list, err)
	}
}

// D.5 1 and C.3: what cannot be is refused, with field, value and rule.
func TestOptions(t *testing.T) {
	for field, o := range map[string]publisher.Options{
		`TopicPrefix is ""`:           {},
		`TopicPrefix is "a/+"`:        {TopicPrefix: "a/+"},
		`TopicPrefix is "$SYS"`:       {TopicPrefix: "$SYS"},
		"RetainedTTL is 30s":          {TopicPrefix: "a", RetainedTTL: 30 * time.Second},
		"Refresh is 30h0m0s":          {TopicPrefix: "a", Refresh: 30 * time.Hour},
		"Refresh is -1s":              {TopicPrefix: "a", Refresh: -time.Second},
		"Audit is 100h0m0s":           {TopicPrefix: "a", Audit: 100 * time.Hour},
		"Block is 1ms":                {TopicPrefix: "a", Block: time.Millisecond},
		"Batch is -1":                 {TopicPrefix: "a", Batch: -1},
		"Batch is 10001":              {TopicPrefix: "a", Batch: 10001},
		"InFlight is -1":              {TopicPrefix: "a", InFlight: -1},
		"Lease is 1ms":                {TopicPrefix: "a", Lease: time.Millisecond},
		"Grace is -1ns":               {TopicPrefix: "a", Grace: -1},
		`StateIndexKeys is "both"`:    {TopicPrefix: "a", StateIndexKeys: "both"},
		`OrderPayload is "something"`: {TopicPrefix: "a", OrderPayload: "something"},
	} {
		_, err := publisher.New(nil, nil, o)
		if err == nil || !strings.Contains(err.Error(), field+": must be ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	conn, err := mqtt.New(mqtt.Options{URL: "mqtt://localhost", ClientID: "x"})
	testenv.Must(t, err)
	if _, err := publisher.New(nil, conn, publisher.Options{TopicPrefix: "a/b", RetainedTTL: time.Minute, Coalesce: -1}); err != nil {
		t.Error(err)
	}
}

// A connection that is closed for good ends it, for nothing can be published any more; so does the end of ctx before there
// ever was a connection.
func TestRunWithoutConnection(t *testing.T) {
	p := newPlant(t)
	conn := p.conn(p.broker.URL)
	i, err := publisher.New(p.store, conn, publisher.Options{TopicPrefix: prefix, Log: quiet})
	testenv.Must(t, err)
	stop := p.run(i.Run)
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Must(t, conn.Run(ctx))
	if err := i.Run(t.Context()); err == nil {
		t.Error("it runs on a closed connection")
	}
}
