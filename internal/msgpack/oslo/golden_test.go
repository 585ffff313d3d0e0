package oslo

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

// goldens returns the bytes that TaskFlow 5.0.0 and its msgpackutils wrote for Redis, by name. The records for ZooKeeper, which are JSON, are
// in the same file.
func goldens(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/taskflow-golden.json")
	testenv.Must(t, err)
	var file struct {
		Vectors []struct{ Name, Hex string }
	}
	testenv.Must(t, json.Unmarshal(text, &file))
	found := make(map[string][]byte)
	for _, v := range file.Vectors {
		if strings.HasPrefix(v.Name, "zk_") {
			continue
		}
		found[v.Name] = unhex(t, v.Hex)
	}
	if len(file.Vectors) != 38 || len(found) != 34 {
		t.Fatalf("%d vectors, %d for Redis", len(file.Vectors), len(found))
	}
	return found
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	testenv.Must(t, err)
	return b
}

func decode(t testing.TB, raw []byte) any {
	t.Helper()
	v, err := Decode(raw)
	if err != nil {
		t.Fatalf("%x: %v", raw, err)
	}
	return v
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := Append(nil, v)
	if err != nil {
		t.Fatalf("%#v: %v", v, err)
	}
	return b
}

// same fails unless err is nil and got is what was wanted.
func same(t testing.TB, got any, err error, want any) {
	t.Helper()
	testenv.Must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestGoldensAreWrittenAsTheyWereRead(t *testing.T) {
	for name, raw := range goldens(t) {
		if again := encode(t, decode(t, raw)); !bytes.Equal(again, raw) {
			t.Errorf("%s\nread  %x\nwrote %x", name, raw, again)
		}
		err := Check(raw)
		if aware := name == "datetime_tz_utc"; aware != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const someUUID = "0b7da2c7-1235-4ade-86b0-1a569887709b"

// Datetimes are read as instants, and written from them with the same bytes.
func TestGoldenDatetimes(t *testing.T) {
	at := func(micro int) time.Time { return time.Date(2024, 2, 29, 12, 34, 56, micro*1000, time.UTC) }
	end := time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
	golden := goldens(t)
	for _, c := range []struct {
		name    string
		want    time.Time
		written time.Time
	}{
		{"datetime_us_0", at(0), at(0)},
		{"datetime_us_127", at(127), at(127)},
		{"datetime_us_128", at(128), at(128)},
		{"datetime_us_255", at(255), at(255)},
		{"datetime_us_256", at(256), at(256)},
		{"datetime_us_65535", at(65535), at(65535)},
		{"datetime_us_65536", at(65536), at(65536)},
		{"datetime_us_999999", at(999999), at(999999).Add(999).In(time.FixedZone("", 3600))},
		{"datetime_min", time.Time{}, time.Time{}},
		{"datetime_epoch", time.Unix(0, 0).UTC(), time.Unix(0, 0)},
		{"datetime_max", end, end.Add(999)},
		{"datetime_tz_utc", time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC), unwritten},
		{"xmlrpc_datetime", time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), unwritten},
	} {
		got, err := Time(decode(t, golden[c.name]).(Ext))
		same(t, got, err, c.want)
		if c.written != unwritten {
			raw, err := AppendTime([]byte("before"), c.written)
			same(t, raw, err, append([]byte("before"), golden[c.name]...))
		}
	}
}

var unwritten = time.Unix(-1, 0) // Takt writes neither zones nor XML-RPC

func TestGoldenScalars(t *testing.T) {
	golden := goldens(t)
	for name, want := range map[string]any{
		"bytes":    []byte{0, 255},
		"ints":     []any{int64(0), int64(127), int64(128), int64(255), int64(256), int64(65535), int64(65536), int64(1<<32 - 1), int64(1 << 32), uint64(1<<64 - 1), int64(-1), int64(-32), int64(-33), int64(-128), int64(-129), int64(-32768), int64(-32769), int64(-1 << 31), int64(-1<<31 - 1), int64(-1 << 63)},
		"floats":   []any{0.0, 1.5, -2.25, 1e300},
		"str_lens": []any{"", strings.Repeat("a", 31), strings.Repeat("a", 32), strings.Repeat("a", 255), strings.Repeat("a", 256)},
		"misc":     Map{{"t", true}, {"f", false}, {"n", nil}, {"l", []any{}}, {"m", Map{}}},
	} {
		same(t, decode(t, golden[name]), nil, want)
	}
}

// member is the value of a member of a Map, nil if there is none.
func member(m any, key string) any {
	for _, pair := range m.(Map) {
		if pair.Key == key {
			return pair.Value
		}
	}
	return nil
}

func TestGoldenPostings(t *testing.T) {
	golden := goldens(t)
	plain := decode(t, golden["posting_plain"]).(Map)
	created := member(plain, "created_on")
	at, err := Time(created.(Ext))
	same(t, at, err, time.Date(2026, 11, 21, 0, 15, 3, 92269000, time.UTC))
	same(t, plain, nil, Map{
		{"uuid", someUUID}, {"name", "job-1"}, {"priority", "NORMAL"}, {"created_on", created}, {"details", Map{}}, {"sequence", int64(1)},
	})
	// The same from Go values.
	built := Map{{"uuid", someUUID}, {"name", "job-1"}, {"priority", "NORMAL"}, {"created_on", at}, {"details", map[string]any{}}, {"sequence", 1}}
	same(t, encode(t, built), nil, golden["posting_plain"])
	for _, priority := range []string{"VERY_HIGH", "HIGH", "NORMAL", "LOW", "VERY_LOW"} {
		got := member(decode(t, golden["posting_"+priority]), "priority")
		same(t, got, nil, any(priority))
	}
	book := member(decode(t, golden["posting_book"]), "book")
	same(t, book, nil, any(Map{{"name", "my-book"}, {"uuid", "11111111-2222-3333-4444-555555555555"}}))
}
