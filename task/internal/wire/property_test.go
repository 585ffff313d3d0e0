package wire

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/internal/testenv"
)

// values draws what an `any` can hold, as it arrives.
func values(levels int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 8
		if levels > 0 {
			kinds = 10
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int64().Draw(t, "int")
		case 3:
			return rapid.Uint64Min(math.MaxInt64+1).Draw(t, "uint")
		case 4:
			return rapid.Float64().Draw(t, "float")
		case 5:
			return rapid.String().Draw(t, "text")
		case 6:
			return append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)
		case 7:
			return times().Draw(t, "time")
		case 8:
			return append([]any{}, rapid.SliceOfN(values(levels-1), 0, 20).Draw(t, "list")...)
		}
		return rapid.MapOfN(rapid.String(), values(levels-1), 0, 20).Draw(t, "map")
	})
}

func times() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		nanos := rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 999_999_999)).Draw(t, "nanos")
		return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), nanos).UTC()
	})
}

// Whatever is taken passes Check and arrives as it was; so does its JSON.
func TestAnyRoundTrips(t *testing.T) {
	c := codec[any](t)
	rapid.Check(t, func(t *rapid.T) {
		v := values(4).Draw(t, "value")
		b := must(t)(c.AppendValue(nil, v))
		testenv.Must(t, Check(b, MaxValueDepth))
		got, err := c.DecodeValue(b)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("got %#v %v", got, err)
		}
		shown := must(t)(ToJSON(b))
		back, err := FromJSON(shown)
		if err != nil || !bytes.Equal(back, b) {
			t.Fatalf("%s\ngot  %x %v\nwant %x", shown, back, err, b)
		}
	})
}

func texts() *rapid.Generator[string] { return rapid.StringN(1, 40, -1) }

func messages() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		list, err := NewCodec[[]any](ByPosition)
		testenv.Must(t, err)
		pairs, err := NewCodec[map[string]any](ByPosition)
		testenv.Must(t, err)
		m := Message{ID: texts().Draw(t, "id"), Name: texts().Draw(t, "name")}
		label := rapid.OneOf(rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil))
		for range rapid.IntRange(0, 20).Draw(t, "labels") {
			m.Labels = append(m.Labels, Label{rapid.String().Draw(t, "key"), label.Draw(t, "label")})
		}
		m.Args = must(t)(list.AppendValue(nil, append([]any{}, rapid.SliceOfN(values(2), 0, 4).Draw(t, "args")...)))
		if kw := rapid.MapOfN(rapid.String(), values(1), 0, 4).Draw(t, "kwargs"); len(kw) > 0 {
			m.Kwargs, err = pairs.AppendValue(nil, kw)
			testenv.Must(t, err)
		}
		if rapid.Bool().Draw(t, "meta") {
			m.Meta = metas().Draw(t, "meta")
		}
		return m
	})
}

func metas() *rapid.Generator[Meta] {
	return rapid.Custom(func(t *rapid.T) (m Meta) {
		for _, n := range []*int64{&m.Enqueued, &m.Deadline, &m.Timeout, &m.Retention, &m.Retries, &m.Snoozes, &m.Blocked, &m.Unknown, &m.Slot, &m.Fence} {
			*n = rapid.Int64().Draw(t, "number")
		}
		for _, s := range []*string{&m.Parent, &m.Trace, &m.TraceState, &m.Unique, &m.Start, &m.Token} {
			*s = rapid.String().Draw(t, "text")
		}
		for range rapid.IntRange(0, MaxHistory).Draw(t, "failures") {
			m.History = append(m.History, Failure{rapid.Int64().Draw(t, "attempt"), rapid.Int64().Draw(t, "at"), rapid.String().Draw(t, "error")})
		}
		return m
	})
}
func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages().Draw(t, "message")
		b := must(t)(m.Append(nil))
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("got  %#v %v\nwant %#v", got, err, m)
		}
	})
}

// A message with one byte changed is read or refused; what is read can be written again.
func TestDamagedMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := messages().Draw(t, "message")
		b := must(t)(m.Append(nil))
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		stable(t, b)
	})
}

// stable says whether what Decode takes, Append writes so that the next reads the same.
func stable(t rapid.TB, b []byte) {
	m, err := Decode(b)
	if err != nil {
		return
	}
	if err := Check(b, MaxDepth); err != nil {
		t.Fatalf("%x was taken, but %v", b, err)
	}
	once, err := m.Append(nil)
	if err != nil {
		t.Fatalf("%x was taken, but cannot be sent on: %v", b, err)
	}
	again, err := Decode(once)
	if err != nil {
		t.Fatalf("%x was sent on as %x, but %v", b, once, err)
	}
	twice, err := again.Append(nil)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%x\nonce  %x\ntwice %x %v", b, once, twice, err)
	}
	if again.ID != m.ID || again.Name != m.Name || len(again.Labels) != len(m.Labels) || len(again.Extra) != len(m.Extra) {
		t.Fatalf("%#v became %#v", m, again)
	}
	for i := range m.Labels {
		if again.Labels[i].Key != m.Labels[i].Key || reflect.TypeOf(again.Labels[i].Value) != reflect.TypeOf(m.Labels[i].Value) {
			t.Fatalf("%#v became %#v", m.Labels, again.Labels)
		}
	}
}
