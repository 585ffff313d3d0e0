package wire

import "github.com/taktworks/takt/internal/msgpack"

// MaxHistory is how many failures a message carries: the newest.
const MaxHistory = 10

// Meta is what Takt adds to a message: a sixth member `meta`, which Python readers ignore. It is a map with short keys, without what
// is zero. Times are in milliseconds since the epoch.
type Meta struct {
	Enqueued   int64     // q: when it was first submitted
	Parent     string    // p: id of the task that submitted it, "" = none
	Trace      string    // t: W3C traceparent
	TraceState string    // ts: W3C tracestate
	Deadline   int64     // d: it must not start after this, 0 = none
	Timeout    int64     // to: of one run, in ms; 0 = that of its type, below 0 = none
	Retention  int64     // r: how long its result is kept, in ms; 0 = as its type says, below 0 = not at all
	Unique     string    // u: key to release at its end
	Start      string    // us: key to release when it starts
	Retries    int64     // m: most retries plus 1, 0 = as its type says
	Snoozes    int64     // sn: how often it was put back at its own wish
	Blocked    int64     // bl: how often it met a lock
	Unknown    int64     // un: how often no worker knew its name
	Slot       int64     // g: place in its group plus 1, 0 = in none
	Fence      int64     // f: that of the run before, 0 = there was none, or its attempt says enough
	History    []Failure // h: oldest first; more than MaxHistory are written without the oldest
	Token      string    // k: idempotency key it was submitted with
	Extra      []Field   // members that nothing here knows
}

// Failure is one failed attempt: the array [attempt, at, error text].
type Failure struct {
	Attempt int64
	At      int64  // ms since the epoch
	Error   string // what is not UTF-8 in it is replaced; its length is the caller's to keep small
}

// members counts what append writes.
func (m *Meta) members() int {
	n := len(m.Extra)
	for _, v := range [...]int64{m.Enqueued, m.Deadline, m.Timeout, m.Retention, m.Retries, m.Snoozes, m.Blocked, m.Unknown, m.Slot, m.Fence} {
		if v != 0 {
			n++
		}
	}
	for _, length := range [...]int{len(m.Parent), len(m.Trace), len(m.TraceState), len(m.Unique), len(m.Start), len(m.History), len(m.Token)} {
		if length != 0 {
			n++
		}
	}
	return n
}

func (m *Meta) size() int {
	n := 60 + len(m.Parent) + len(m.Trace) + len(m.TraceState) + len(m.Unique) + len(m.Start) + len(m.Token)
	for i := range m.History {
		n += 20 + len(m.History[i].Error)
	}
	return n
}

func (m *Meta) append(dst []byte, members int) ([]byte, error) {
	w := metaWriter{out: msgpack.AppendMapLen(dst, members)}
	w.int("q", m.Enqueued)
	w.text("p", m.Parent)
	w.text("t", m.Trace)
	w.text("ts", m.TraceState)
	w.int("d", m.Deadline)
	w.int("to", m.Timeout)
	w.int("r", m.Retention)
	w.text("u", m.Unique)
	w.text("us", m.Start)
	w.int("m", m.Retries)
	w.int("sn", m.Snoozes)
	w.int("bl", m.Blocked)
	w.int("un", m.Unknown)
	w.int("g", m.Slot)
	w.int("f", m.Fence)
	w.history("h", m.History)
	w.text("k", m.Token)
	if w.err != nil {
		return w.out, w.err
	}
	return appendFields(w.out, m.Extra, MaxDepth-2)
}

// metaWriter appends members that are not zero and keeps the first error.
type metaWriter struct {
	out []byte
	err error
}

func (w *metaWriter) int(key string, n int64) {
	if n != 0 {
		w.out = msgpack.AppendInt(msgpack.AppendString(w.out, key), n)
	}
}

func (w *metaWriter) text(key, s string) {
	if s == "" || w.err != nil {
		return
	}
	w.out, w.err = msgpack.AppendChecked(msgpack.AppendString(w.out, key), key, s)
}

func (w *metaWriter) history(key string, h []Failure) {
	if len(h) == 0 {
		return
	}
	h = h[max(0, len(h)-MaxHistory):]
	w.out = msgpack.AppendArrayLen(msgpack.AppendString(w.out, key), len(h))
	for _, f := range h {
		w.out = msgpack.AppendArrayLen(w.out, 3)
		w.out = msgpack.AppendInt(msgpack.AppendInt(w.out, f.Attempt), f.At)
		// The text of an error must not be the reason why a failure cannot be written.
		w.out = msgpack.AppendString(w.out, msgpack.Clean(f.Error))
	}
}

func (m *Meta) read(r *reader) error {
	return r.Fields(func(name []byte, from int) error { return m.readMember(r, name, from) })
}

// readMember reads the value of a member whose key began at from.
func (m *Meta) readMember(r *reader, name []byte, from int) (err error) {
	switch string(name) {
	case "q":
		m.Enqueued, err = r.Int()
	case "p":
		m.Parent, err = r.Text()
	case "t":
		m.Trace, err = r.Text()
	case "ts":
		m.TraceState, err = r.Text()
	case "d":
		m.Deadline, err = r.Int()
	case "to":
		m.Timeout, err = r.Int()
	case "r":
		m.Retention, err = r.Int()
	case "u":
		m.Unique, err = r.Text()
	case "us":
		m.Start, err = r.Text()
	case "m":
		m.Retries, err = r.Int()
	case "sn":
		m.Snoozes, err = r.Int()
	case "bl":
		m.Blocked, err = r.Int()
	case "un":
		m.Unknown, err = r.Int()
	case "g":
		m.Slot, err = r.Int()
	case "f":
		m.Fence, err = r.Int()
	case "h":
		m.History, err = readHistory(r)
	case "k":
		m.Token, err = r.Text()
	default:
		var f Field
		f, err = r.field(from, MaxDepth-2)
		m.Extra = append(m.Extra, f)
	}
	return err
}

// readHistory reads the newest MaxHistory failures. Elements of one behind the third are a newer writer's.
func readHistory(r *reader) ([]Failure, error) {
	t, err := r.Want(msgpack.KindArray)
	if err != nil {
		return nil, err
	}
	var h []Failure
	for i := range t.N() {
		if i < t.N()-MaxHistory {
			err = r.Skip(MaxDepth - 3)
		} else {
			var f Failure
			f, err = readFailure(r)
			h = append(h, f)
		}
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}

func readFailure(r *reader) (f Failure, err error) {
	t, err := r.Want(msgpack.KindArray)
	if err != nil {
		return f, err
	}
	if t.N() < 3 {
		return f, r.Fail(t.At, "is %d elements, must be attempt, time and text", t.N())
	}
	if f.Attempt, err = r.Int(); err != nil {
		return f, err
	}
	if f.At, err = r.Int(); err != nil {
		return f, err
	}
	if f.Error, err = r.Text(); err != nil {
		return f, err
	}
	for range t.N() - 3 {
		if err = r.Skip(MaxDepth - 4); err != nil {
			return f, err
		}
	}
	return f, nil
}
