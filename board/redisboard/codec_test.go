package redisboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/msgpack/oslo"
	"github.com/taktworks/takt/internal/testenv"
)

// goldens are the records of postings that TaskFlow wrote, by the name of the vector.
func goldens(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../../internal/msgpack/oslo/testdata/taskflow-golden.json")
	testenv.Must(t, err)
	var file struct {
		Vectors []struct{ Name, Hex string }
	}
	testenv.Must(t, json.Unmarshal(text, &file))
	found := map[string][]byte{}
	for _, v := range file.Vectors {
		if strings.HasPrefix(v.Name, "posting_") || strings.HasPrefix(v.Name, "datetime_") {
			found[v.Name], err = hex.DecodeString(v.Hex)
			testenv.Must(t, err)
		}
	}
	return found
}

func mustTime(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	testenv.Must(t, err)
	return at
}

const goldenUUID = "0b7da2c7-1235-4ade-86b0-1a569887709b"

func TestGoldenPostings(t *testing.T) {
	for name, raw := range goldens(t) {
		if !strings.HasPrefix(name, "posting_") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p, err := decodePosting(goldenUUID, raw)
			testenv.Must(t, err)
			if p.UUID != goldenUUID || p.Ref != goldenUUID || p.Name == "" || p.CreatedOn.Location() != time.UTC || p.CreatedOn.Year() != 2026 {
				t.Errorf("read as %+v", p)
			}
			if want, ok := strings.CutPrefix(name, "posting_"); ok && strings.ToUpper(want) == want && p.Priority.String() != want {
				t.Errorf("priority is %v", p.Priority)
			}
			head, err := appendHead(nil, p)
			testenv.Must(t, err)
			again := msgpack.AppendInt(head, p.Sequence)
			if !bytes.Equal(ordered(t, again), ordered(t, raw)) {
				t.Errorf("written again as\n%x, want\n%x", again, raw)
			}
			if len(p.Details) == 0 && !bytes.Equal(again, raw) { // the order of details is that of Python's program, which ours does not keep
				t.Errorf("written again as\n%x, want\n%x", again, raw)
			}
		})
	}
}

// ordered writes a record again with the members of its details, at every depth, in the order of their keys.
func ordered(t *testing.T, raw []byte) []byte {
	t.Helper()
	v, err := oslo.Decode(raw)
	testenv.Must(t, err)
	m := v.(oslo.Map)
	for i := range m {
		if m[i].Key == "details" {
			m[i].Value = sorted(m[i].Value)
		}
	}
	out, err := oslo.Append(nil, m)
	testenv.Must(t, err)
	return out
}

func sorted(v any) any {
	m, ok := v.(oslo.Map)
	if !ok {
		return v
	}
	slices.SortFunc(m, func(a, b oslo.Pair) int { return strings.Compare(a.Key.(string), b.Key.(string)) })
	for i := range m {
		m[i].Value = sorted(m[i].Value)
	}
	return m
}

func TestGoldenTimes(t *testing.T) {
	for name, raw := range goldens(t) {
		if !strings.HasPrefix(name, "datetime_") {
			continue
		}
		at, err := decodeTime(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "datetime_tz_utc" { // read, and never written
			if want := mustTime(t, "2024-01-02T03:04:05.000006Z"); !at.Equal(want) {
				t.Errorf("%s is %v", name, at)
			}
			continue
		}
		if again := appendTime(nil, at); !bytes.Equal(again, raw) {
			t.Errorf("%s: written again as\n%x, want\n%x", name, again, raw)
		}
	}
}

// record builds a posting as a foreign writer might: pairs of a key and a value, either of which may be raw.
type raw []byte

func record(parts ...any) []byte {
	out := msgpack.AppendMapLen(nil, len(parts)/2)
	for _, part := range parts {
		if r, ok := part.(raw); ok {
			out = append(out, r...)
			continue
		}
		var err error
		if out, err = oslo.Append(out, part); err != nil {
			panic(err)
		}
	}
	return out
}

var created = time.Date(2026, 11, 21, 0, 15, 3, 92269000, time.UTC)

// with returns the members of a plain posting, with some put in the place of others or added; a nil key leaves one out.
func with(changes ...any) []any {
	parts := []any{"uuid", goldenUUID, "name", "job-1", "priority", "NORMAL", "created_on", created, "details", oslo.Map{}, "sequence", int64(7)}
	for i := 0; i < len(changes); i += 2 {
		at := slices.Index(parts, changes[i])
		switch {
		case changes[i+1] == gone:
			parts = slices.Delete(parts, at, at+2)
		case at >= 0:
			parts[at+1] = changes[i+1]
		default:
			parts = append(parts, changes[i], changes[i+1])
		}
	}
	return parts
}

type nothing struct{}

var gone = nothing{}

// clock is a datetime whose map has other keys, or another order.
func clock(pairs ...any) raw { return raw(msgpack.AppendExt(nil, 1, record(pairs...))) }

func TestReadable(t *testing.T) {
	plain := driver.Posting{UUID: goldenUUID, Ref: goldenUUID, Name: "job-1", CreatedOn: created, Sequence: 7}
	but := func(change func(*driver.Posting)) driver.Posting {
		p := plain
		change(&p)
		return p
	}
	reverse := func(parts []any) []any {
		var out []any
		for i := len(parts) - 2; i >= 0; i -= 2 {
			out = append(out, parts[i], parts[i+1])
		}
		return out
	}
	for name, c := range map[string]struct {
		parts []any
		want  driver.Posting
	}{
		"plain":                  {with(), plain},
		"2.8, without priority":  {with("priority", gone), plain},
		"without details":        {with("details", gone), plain},
		"details are null":       {with("details", nil), plain},
		"details are false":      {with("details", false), plain},
		"details are 0":          {with("details", 0), plain},
		"details are an array":   {with("details", []any{}), plain},
		"details are no text":    {with("details", ""), plain},
		"another order":          {reverse(with()), plain},
		"lower case":             {with("priority", "very_high"), but(func(p *driver.Posting) { p.Priority = driver.VeryHigh })},
		"book null":              {with("book", nil), plain},
		"book {}":                {with("book", oslo.Map{}), plain},
		"book":                   {with("book", oslo.Map{{Key: "uuid", Value: "u"}, {Key: "name", Value: "n"}, {Key: "more", Value: 1}}), but(func(p *driver.Posting) { p.Book = &driver.Book{Name: "n", UUID: "u"} })},
		"name null":              {with("name", nil), but(func(p *driver.Posting) { p.Name = "" })},
		"name a number":          {with("name", 12), but(func(p *driver.Posting) { p.Name = "12" })},
		"name bytes":             {with("name", []byte("job-1")), plain},
		"uuid empty":             {with("uuid", ""), plain},
		"uuid null":              {with("uuid", nil), plain},
		"uuid 0":                 {with("uuid", 0), plain},
		"uuid of another field":  {with("uuid", "u"), but(func(p *driver.Posting) { p.UUID = "u" })},
		"created_on no datetime": {with("created_on", 12), but(func(p *driver.Posting) { p.CreatedOn = time.Time{} })},
		"created_on in a zone": {
			with("created_on", clock("day", 21, "month", 11, "year", 2026, "hour", 1, "minute", 15, "second", 3, "microsecond", 92269, "tz", "Europe/Berlin")), plain,
		},
		"created_on by Python 2": {
			with("created_on", clock([]byte("microsecond"), 92269, []byte("second"), 3, []byte("minute"), 15, []byte("hour"), 0, []byte("year"), 2026, []byte("month"), 11, []byte("day"), 21)), plain,
		},
		"unknown keys":                           {with("x_takt", oslo.Map{{Key: "a", Value: 1}}, "y", nil), but(func(p *driver.Posting) { p.Extra = map[string]any{"x_takt": map[string]any{"a": int64(1)}, "y": nil} })},
		"a key of bytes is another than of text": {with([]byte("name"), "other"), plain},
		"the last of two counts": {
			append([]any{"details", oslo.Map{{Key: "a", Value: 1}}, "book", oslo.Map{{Key: "name", Value: "n"}, {Key: "uuid", Value: "u"}}, "uuid", "x", "priority", "LOW"}, with("book", nil, "uuid", "")...), plain,
		},
		"wide numbers":      {with("sequence", raw("\xd3\x00\x00\x00\x00\x00\x00\x00\x07")), plain},
		"wide unsigned":     {with("sequence", raw("\xcf\x00\x00\x00\x00\x00\x00\x00\x07")), plain},
		"wide text":         {with("name", raw("\xdb\x00\x00\x00\x05job-1")), plain},
		"wide map":          {with("details", raw("\xdf\x00\x00\x00\x00")), plain},
		"wide map 16":       {with("details", raw("\xde\x00\x00")), plain},
		"wide extension":    {with("created_on", raw("\xc9\x00\x00\x00\x3c\x01"+string(appendTime(nil, created)[3:]))), plain},
		"negative sequence": {with("sequence", -3), but(func(p *driver.Posting) { p.Sequence = -3 })},
		"highest sequence":  {with("sequence", int64(math.MaxInt64)), but(func(p *driver.Posting) { p.Sequence = math.MaxInt64 })},
		"extensions": {with("details", oslo.Map{{Key: "s", Value: oslo.Ext{Code: 4, Data: []byte("\x91\x01")}}}), but(func(p *driver.Posting) {
			p.Details = map[string]any{"s": driver.Ext{Code: 4, Data: []byte("\x91\x01")}}
		})},
		"keys of bytes":      {with("details", oslo.Map{{Key: []byte("k"), Value: []byte("v")}}), but(func(p *driver.Posting) { p.Details = map[string]any{"k": []byte("v")} })},
		"times in details":   {with("details", oslo.Map{{Key: "t", Value: created}}), but(func(p *driver.Posting) { p.Details = map[string]any{"t": created} })},
		"numbers above 2^63": {with("details", oslo.Map{{Key: "n", Value: uint64(math.MaxUint64)}}), but(func(p *driver.Posting) { p.Details = map[string]any{"n": uint64(math.MaxUint64)} })},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := decodePosting(goldenUUID, record(c.parts...))
			testenv.Must(t, err)
			if !reflect.DeepEqual(*p, c.want) {
				t.Errorf("read as %+v, want %+v", *p, c.want)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	good := record(with()...)
	for name, c := range map[string]struct {
		raw   []byte
		names string // the part that the error is about
	}{
		"empty":                       {nil, "ends"},
		"no map":                      {[]byte{0x01}, "map"},
		"null":                        {[]byte{0xc0}, "map"},
		"cut":                         {good[:len(good)-1], "ends"},
		"more behind it":              {append(slices.Clone(good), 0), "1 bytes follow"},
		"without uuid":                {record(with("uuid", gone)...), "uuid"},
		"uuid as bytes":               {record(append([]any{[]byte("uuid"), goldenUUID}, with("uuid", gone)...)...), "uuid"},
		"uuid a number":               {record(with("uuid", 7)...), "uuid"},
		"without name":                {record(with("name", gone)...), "name"},
		"without created_on":          {record(with("created_on", gone)...), "created_on"},
		"without sequence":            {record(with("sequence", gone)...), "sequence"},
		"sequence a text":             {record(with("sequence", "7")...), "sequence"},
		"sequence null":               {record(with("sequence", nil)...), "sequence"},
		"sequence above 2^63":         {record(with("sequence", uint64(math.MaxUint64))...), "sequence"},
		"sequence a float":            {record(with("sequence", 7.0)...), "sequence"},
		"priority null":               {record(with("priority", nil)...), "priority"},
		"priority as bytes":           {record(with("priority", []byte("HIGH"))...), "priority"},
		"priority unknown":            {record(with("priority", "URGENT")...), "priority"},
		"details a text":              {record(with("details", "x")...), "details"},
		"details an array":            {record(with("details", []any{1})...), "details"},
		"details with a key a number": {record(with("details", raw("\x81\x01\x02"))...), "details"},
		"details no UTF-8":            {record(with("details", raw("\x81\xa1a\xa1\xff"))...), "details"},
		"book without uuid":           {record(with("book", oslo.Map{{Key: "name", Value: "n"}})...), "book"},
		"book a text":                 {record(with("book", "b")...), "book"},
		"name no UTF-8":               {record(with("name", raw("\xa1\xff"))...), "name"},
		"a key a number":              {record(append(with(), raw("\x05"), 1)...), "key"},
		"a value cut":                 {append(record(with()...)[:1], "\xa4name\xa5job"...), ""},
		"unknown key no value":        {record(with("x", raw("\xc1"))...), "x"},
		"a bomb of arrays":            {record(with("details", raw(strings.Repeat("\x91", 600)+"\x01"))...), "details"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := decodePosting(goldenUUID, c.raw)
			if err == nil {
				t.Fatalf("read as %+v", p)
			}
			if !strings.Contains(err.Error(), c.names) {
				t.Errorf("%v: does not name %q", err, c.names)
			}
		})
	}
}

// What is read is written so that it is read as the same again, and whatever is read, nothing panics.
func FuzzDecodePosting(f *testing.F) {
	for name, raw := range goldens(f) {
		if strings.HasPrefix(name, "posting_") {
			f.Add(raw)
		}
	}
	f.Add(record(with("x", oslo.Ext{Code: 5, Data: []byte("\x91\x01")}, "book", nil)...))
	f.Add(record(with("priority", "low", "name", 1.5, "details", oslo.Map{{Key: []byte("k"), Value: []any{nil, true}}})...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodePosting("field", raw)
		if err != nil {
			return
		}
		head, err := appendHead(nil, p)
		if err != nil {
			return // an extension that Python would not read, or a year that it has not
		}
		again, err := decodePosting("field", msgpack.AppendInt(head, p.Sequence))
		if err != nil {
			t.Fatalf("%x is written as %x: %v", raw, head, err)
		}
		if a, b := show(t, p), show(t, again); a != b {
			t.Errorf("read as %s, then as %s", a, b)
		}
	})
}

// show is all of a posting as text, for NaN is not equal to itself.
func show(t *testing.T, p *driver.Posting) string {
	t.Helper()
	head, err := appendHead(nil, p)
	testenv.Must(t, err)
	return p.Ref + string(msgpack.AppendInt(head, p.Sequence))
}
