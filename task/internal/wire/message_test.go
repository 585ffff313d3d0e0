package wire

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/testenv"
)

// pack builds msgpack by hand: strings as text, ints, []byte as it is, and lists of them one after the other.
func pack(parts ...any) (out []byte) {
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			out = msgpack.AppendString(out, v)
		case int:
			out = msgpack.AppendInt(out, int64(v))
		case []byte:
			out = append(out, v...)
		default:
			panic(p)
		}
	}
	return out
}

func mapOf(pairs int, parts ...any) []byte {
	return append(msgpack.AppendMapLen(nil, pairs), pack(parts...)...)
}

func arrayOf(n int, parts ...any) []byte {
	return append(msgpack.AppendArrayLen(nil, n), pack(parts...)...)
}

// deep is so many arrays one within the other.
func deep(levels int) []byte {
	return append(bytes.Repeat([]byte{0x91}, levels-1), 0x90)
}

func fullMeta() Meta {
	return Meta{
		Enqueued: 1767323045678, Parent: "p1", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "a=b",
		Deadline: 1767323055678, Timeout: -1, Retention: 60000, Unique: "uk", Start: "us", Retries: 4,
		Snoozes: 1, Blocked: 2, Unknown: 3, Slot: 7, Fence: 1<<32 + 2,
		History: []Failure{{1, 1767323045000, "boom"}, {2, 1767323046000, ""}},
		Token:   "tok",
		Extra:   []Field{{pack("x"), arrayOf(2, 1, "y")}},
	}
}

func fullMessage() Message {
	return Message{
		ID: "id", Name: "a:b", Args: arrayOf(1, 5), Kwargs: mapOf(1, "k", "v"),
		Labels: Labels{{"s", "x"}, {"i", int64(-3)}, {"f", 1.5}, {"b", true}, {"n", nil}, {"raw", Raw(arrayOf(1, "z"))}, {"big", Raw{0xcf, 255, 0, 0, 0, 0, 0, 0, 0}}},
		Meta:   fullMeta(),
		Extra:  []Field{{pack("future"), mapOf(1, "a", 1)}, {[]byte{0xc4, 1, 0xff}, pack(9)}},
	}
}

func TestMessageRoundTrip(t *testing.T) {
	m := fullMessage()
	b := must(t)(m.Append([]byte("prefix")))
	got, err := Decode(b[len("prefix"):])
	same(t, got, err, m)
	if err := Check(b[len("prefix"):], MaxDepth); err != nil {
		t.Error(err)
	}
}

// What an older program does not know of a newer one's message is in the message it sends on.
func TestUnknownMembersSurvive(t *testing.T) {
	b := mapOf(5, "new", arrayOf(2, 1, 2), "task_id", "i", "meta", mapOf(2, "zz", mapOf(0), "q", 7), "task_name", "n", "task_args", arrayOf(0))
	m, err := Decode(b)
	testenv.Must(t, err)
	m.Meta.Snoozes++
	again := must(t)(m.Append(nil))
	got, err := Decode(again)
	same(t, got, err, m)
	same(t, got.Extra, nil, []Field{{pack("new"), arrayOf(2, 1, 2)}})
	same(t, got.Meta.Extra, nil, []Field{{pack("zz"), mapOf(0)}})
	same(t, got.Meta.Enqueued, nil, int64(7))
}

func TestFieldsInAnyOrder(t *testing.T) {
	parts := [][]byte{
		pack("task_id", "i"), pack("task_name", "n"), pack("labels", mapOf(1, "a", "b")),
		pack("task_args", arrayOf(1, 1)), pack("task_kwargs", mapOf(0)), pack("meta", mapOf(1, "q", 1)),
	}
	want := Message{ID: "i", Name: "n", Labels: Labels{{"a", "b"}}, Args: arrayOf(1, 1), Meta: Meta{Enqueued: 1}}
	for range parts {
		parts = append(parts[1:], parts[0])
		got, err := Decode(mapOf(len(parts), slices.Concat(parts...)))
		same(t, got, err, want)
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	m := Message{ID: "i", Name: "n"}
	for i := range int64(MaxHistory + 3) {
		m.Meta.History = append(m.Meta.History, Failure{i, i, "bad \xff text"})
	}
	b := must(t)(m.Append(nil))
	got, err := Decode(b)
	testenv.Must(t, err)
	h := got.Meta.History
	if len(h) != MaxHistory || h[0].Attempt != 3 || h[0].Error != "bad \uFFFD text" {
		t.Errorf("got %v", h)
	}
	long := arrayOf(12)
	for i := range 12 {
		long = append(long, arrayOf(4, i, i, "e", mapOf(0))...)
	}
	got, err = Decode(mapOf(3, "task_id", "i", "task_name", "n", "meta", mapOf(1, "h", long)))
	testenv.Must(t, err)
	if h := got.Meta.History; len(h) != MaxHistory || h[0].Attempt != 2 {
		t.Errorf("got %v", h)
	}
}

// What a reader would refuse is refused by Decode with the field and the offset, never dropped, never a panic.
func TestDecodeRefuses(t *testing.T) {
	id, name := pack("task_id", "i"), pack("task_name", "n")
	with := func(parts ...any) []byte { return mapOf(3, id, name, pack(parts...)) }
	for text, b := range map[string][]byte{
		"byte 0: ends where a value should begin":                        nil,
		"byte 0: is an array, must be a map":                             arrayOf(0),
		"byte 0: 0xc1 begins no value":                                   {0xc1},
		"byte 0: ends within the head":                                   {0xde, 0},
		"byte 0: a map of 4294967295 members, but only 2 bytes":          {0xdf, 255, 255, 255, 255, 1, 1},
		"task_args, byte 33: an array of 4294967295 members":             with("task_args", []byte{0xdd, 255, 255, 255, 255}),
		"task_id, byte 0: is missing":                                    mapOf(1, name),
		"task_name, byte 0: is missing":                                  mapOf(1, id),
		"task_id, byte 9: is an integer, must be text":                   mapOf(1, "task_id", 1),
		"task_id, byte 9: text is not UTF-8":                             mapOf(1, "task_id", []byte{0xa1, 0xff}),
		"byte 23: 1 bytes follow":                                        append(mapOf(2, id, name), 0xc0),
		"byte 23: a map key is an integer, must be text or bytes":        with(1, 1),
		"task_args, byte 35: a map key is an integer":                    with("task_args", arrayOf(1, mapOf(1, 1, "x"))),
		"task_args, byte 33: is a map, must be an array":                 with("task_args", mapOf(0)),
		"task_args, byte 64: is nested too deep":                         with("task_args", deep(MaxDepth)),
		"task_kwargs, byte 35: is nil, must be a map":                    with("task_kwargs", []byte{0xc0}),
		"labels.k, byte 33: text of 5 bytes, but only 1 follow":          with("labels", mapOf(1, "k", []byte{0xa5, 'x'})),
		"meta.q, byte 31: is text, must be an integer":                   with("meta", mapOf(1, "q", "x")),
		"meta.h, byte 32: is 2 elements, must be attempt, time and text": with("meta", mapOf(1, "h", arrayOf(1, arrayOf(2, 1, 1)))),
		"meta.new, byte 34: a map key is a bool":                         with("meta", mapOf(1, "new", mapOf(1, []byte{0xc3}, 1))),
		"future, byte 30: a timestamp of 5 bytes":                        with("future", []byte{0xc7, 5, 0xff, 0, 0, 0, 0, 0}),
		"future, byte 30: a timestamp of 1073741823 ns within a second":  with("future", []byte{0xd7, 0xff, 255, 255, 255, 255, 0, 0, 0, 0}),
		"future, byte 30: ends within the head":                          with("future", []byte{0xc7, 0}),
		"labels, byte 31: is an integer, must be text":                   with("labels", mapOf(1, 1, 1)),
	} {
		_, err := Decode(b)
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), text) {
			t.Errorf("%x\ngot  %v\nwant %s", b, err, text)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	m := fullMessage()
	b := must(t)(m.Append(nil))
	for n := range b {
		if _, err := Decode(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a message", n, len(b))
		}
	}
}

// A message that could not be read is refused where it is written, and dst stays as it was.
func TestAppendRefuses(t *testing.T) {
	valid := Message{ID: "i", Name: "n"}
	for text, change := range map[string]func(*Message){
		"task_id: must not be empty":                      func(m *Message) { m.ID = "" },
		"task_name: must not be empty":                    func(m *Message) { m.Name = "" },
		"task_name: text is not UTF-8":                    func(m *Message) { m.Name = "\xff" },
		"task_args, byte 0: is a map, must be an array":   func(m *Message) { m.Args = mapOf(0) },
		"task_args, byte 2: a map key is an integer":      func(m *Message) { m.Args = arrayOf(1, mapOf(1, 1, 1)) },
		"task_args, byte 1: 1 bytes follow":               func(m *Message) { m.Args = append(arrayOf(0), 1) },
		"task_args, byte 31: is nested too deep":          func(m *Message) { m.Args = deep(MaxDepth) },
		"task_kwargs, byte 0: is an array, must be a map": func(m *Message) { m.Kwargs = arrayOf(0) },
		"labels.x: a label is text, an int":               func(m *Message) { m.Labels = Labels{{"x", []string{}}} },
		"labels.x: text is not UTF-8":                     func(m *Message) { m.Labels = Labels{{"x", "\xff"}} },
		"labels: text is not UTF-8":                       func(m *Message) { m.Labels = Labels{{"\xff", "x"}} },
		"labels.x, byte 0: ends where":                    func(m *Message) { m.Labels = Labels{{"x", Raw{}}} },
		"meta.p: text is not UTF-8":                       func(m *Message) { m.Meta.Parent = "\xff"; m.Meta.Token = "\xff" },
		"byte 0: a map key is an integer":                 func(m *Message) { m.Extra = []Field{{pack(1), pack(1)}} },
		"byte 1: 1 bytes follow the value":                func(m *Message) { m.Extra = []Field{{pack("k"), pack(1, 2)}} },
		"meta, byte 2: 1 bytes follow the value":          func(m *Message) { m.Meta.Extra = []Field{{pack("k", 1), pack(1)}} },
	} {
		m := valid
		change(&m)
		b, err := m.Append([]byte("x"))
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got  %v\nwant %s", err, text)
		}
		if string(b) != "x" {
			t.Errorf("%s: dst is %q", text, b)
		}
	}
}

func TestDepthLimitIsTheSameOnBothSides(t *testing.T) {
	m := Message{ID: "i", Name: "n", Args: deep(MaxValueDepth), Labels: Labels{{"x", Raw(deep(MaxValueDepth - 1))}}}
	b := must(t)(m.Append(nil))
	got, err := Decode(b)
	same(t, got, err, m)
	result := Result{Value: deep(MaxValueDepth)}
	b, err = result.Append(nil)
	testenv.Must(t, err)
	back, err := DecodeResult(b)
	same(t, back, err, result)
}

func TestLabels(t *testing.T) {
	l := Labels{{"a", "1"}, {"n", int64(2)}, {"a", "last"}}
	if l.String("a") != "last" || l.Int("n") != 2 || l.Int("a") != 0 || l.String("n") != "" || l.String("none") != "" {
		t.Error(l)
	}
	if v, ok := l.Get("none"); v != nil || ok {
		t.Error(v, ok)
	}
	changed := l.Set("n", 3).Set("new", true)
	same(t, changed, nil, Labels{{"a", "1"}, {"n", 3}, {"a", "last"}, {"new", true}})
	if changed.Int("n") != 3 || l.Int("n") != 2 || len(l) != 3 {
		t.Error("Set changed what it was called on")
	}
}

func TestResult(t *testing.T) {
	for text, b := range map[string][]byte{
		"is_err, byte 0: is missing":                      mapOf(1, "return_value", 1),
		"is_err, byte 8: is nil, must be a bool":          mapOf(1, "is_err", []byte{0xc0}),
		"execution_time, byte 16: is text, must be a flo": mapOf(1, "execution_time", "x"),
		"error, byte 7: is text, must be nil or a map":    mapOf(1, "error", "x"),
		"error.type, byte 13: is an integer, must be tex": mapOf(1, "error", mapOf(1, "type", 1)),
		"return_value, byte 15: a map key is":             mapOf(1, "return_value", mapOf(1, 5, 5)),
	} {
		_, err := DecodeResult(b)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got  %v\nwant %s", err, text)
		}
	}
	got, err := DecodeResult(mapOf(3, "is_err", []byte{0xc2}, "execution_time", 2, "later", mapOf(0)))
	same(t, got, err, Result{Seconds: 2})
	bad := Result{Value: []byte{0x81, 1, 1}}
	if _, err := bad.Append(nil); err == nil {
		t.Error("T9: a value no reader takes was written")
	}
	spoilt := Result{IsErr: true, Err: &Error{"T", "\xff", "\xfe"}}
	b := must(t)(spoilt.Append(nil))
	got, err = DecodeResult(b)
	same(t, got.Err, err, &Error{"T", "\uFFFD", "\uFFFD"})
}

func TestCallbackRefuses(t *testing.T) {
	for text, b := range map[string][]byte{
		"task_class, byte 0: is missing":         mapOf(1, "args", arrayOf(0)),
		"args, byte 6: is a map, must be":        mapOf(1, "args", mapOf(0)),
		"byte 14: 1 bytes follow":                append(mapOf(1, "task_class", "x"), 1),
		"other, byte 7: ends where a value":      mapOf(1, "other"),
		"byte 0: is text, must be a map":         pack("x"),
		"task_class, byte 12: is nil, must be t": mapOf(1, "task_class", []byte{0xc0}),
	} {
		c, err := DecodeCallback(b)
		if err == nil || !strings.Contains(err.Error(), text) || c.Class != "" {
			t.Errorf("got  %v\nwant %s", err, text)
		}
	}
	for _, c := range []Callback{{}, {Class: "x", Args: mapOf(0)}, {Class: "\xff"}} {
		if b, err := c.Append(nil); err == nil || b != nil {
			t.Errorf("%v was written", c)
		}
	}
}
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		raw   []byte
		depth int
		ok    bool
	}{
		{[]byte{0xc0}, 0, true},
		{arrayOf(0), 0, false},
		{arrayOf(0), 1, true},
		{deep(32), 32, true},
		{deep(33), 32, false},
		{mapOf(1, "x", 1), 1, true},
		{mapOf(1, []byte{0xc4, 1, 0xff}, 1), 1, true},
		{mapOf(1, 1, 1), 1, false},
		{mapOf(1, []byte{0xc0}, 1), 1, false},
		{mapOf(1, arrayOf(0), 1), 9, false},
		{[]byte{0xa1, 0xff}, 0, false},
		{[]byte{0xd4, 5, 1}, 0, true}, // an extension of others
		{[]byte{0xd4, 0xff, 1}, 0, false},
		{nil, 5, false},
		{[]byte{1, 2}, 5, false},
	} {
		if err := Check(c.raw, c.depth); (err == nil) != c.ok {
			t.Errorf("%x at %d: %v", c.raw, c.depth, err)
		}
	}
}

func TestNothingIsAllocatedByAClaimedLength(t *testing.T) {
	claim := append(bytes.Repeat([]byte{0xdd, 0, 0, 0xff, 0}, 30), bytes.Repeat([]byte{0xc1}, 0xff00)...)
	any, list := codec[any](t), codec[[][][][64]int](t)
	for name, read := range map[string]func() error{
		"any":  func() error { _, err := any.DecodeValue(claim); return err },
		"list": func() error { _, err := list.DecodeValue(claim); return err },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			if read() == nil {
				t.Fatal("was read")
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / 10; got > 256<<10 {
			t.Errorf("%s: %d bytes allocated for %d that claim %d", name, got, len(claim), 30*0xff00*16)
		}
	}
}

// The words that are not copied are those that were read.
func TestLabelWords(t *testing.T) {
	for _, word := range []string{
		"priority", "size", "periodic", "vo", "group_id", "callback_group_id", "_retry_attempt", "_lock_retry",
		"realtime", "normal", "background", "small", "medium", "large", "", "other",
	} {
		want := Message{ID: "i", Name: "n", Args: arrayOf(0), Labels: Labels{{word, word}}}
		got, err := Decode(must(t)(want.Append(nil)))
		same(t, got, err, want)
	}
}
