package oslo

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// goldens returns the bytes that TaskFlow 5.0.0 and its msgpackutils wrote for Redis, by name. The records for ZooKeeper, which are JSON, are
// in the same file.
func goldens(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/taskflow-golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct{ Name, Hex string }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, raw []byte) any {
	t.Helper()
	v, err := Decode(raw, Limits{})
	if err != nil {
		t.Fatalf("%x: %v", raw, err)
	}
	return v
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := Append(nil, v, Limits{})
	if err != nil {
		t.Fatalf("%#v: %v", v, err)
	}
	return b
}

// same fails unless err is nil and got is what was wanted.
func same(t testing.TB, got any, err error, want any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestGoldensAreWrittenAsTheyWereRead(t *testing.T) {
	for name, raw := range goldens(t) {
		if again := encode(t, decode(t, raw)); !bytes.Equal(again, raw) {
			t.Errorf("%s\nread  %x\nwrote %x", name, raw, again)
		}
		err := Check(raw, Limits{})
		if aware := name == "datetime_tz_utc"; aware != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const someUUID = "0b7da2c7-1235-4ade-86b0-1a569887709b"

// What every extension of oslo means, made from Go values and read as Go values, and shown as JSON.
func TestGoldenExtensions(t *testing.T) {
	at := func(micro int) time.Time { return time.Date(2024, 2, 29, 12, 34, 56, micro*1000, time.UTC) }
	golden := goldens(t)
	seen := 0
	for _, c := range []struct {
		name string
		want any
		make func() (Ext, error)
		json string
	}{
		{"datetime_us_0", at(0), timeOf(at(0)), `"2024-02-29T12:34:56.000000Z"`},
		{"datetime_us_127", at(127), timeOf(at(127)), `"2024-02-29T12:34:56.000127Z"`},
		{"datetime_us_128", at(128), timeOf(at(128)), `"2024-02-29T12:34:56.000128Z"`},
		{"datetime_us_255", at(255), timeOf(at(255)), `"2024-02-29T12:34:56.000255Z"`},
		{"datetime_us_256", at(256), timeOf(at(256)), `"2024-02-29T12:34:56.000256Z"`},
		{"datetime_us_65535", at(65535), timeOf(at(65535)), `"2024-02-29T12:34:56.065535Z"`},
		{"datetime_us_65536", at(65536), timeOf(at(65536)), `"2024-02-29T12:34:56.065536Z"`},
		{"datetime_us_999999", at(999999), timeOf(at(999999).Add(999).In(time.FixedZone("", 3600))), `"2024-02-29T12:34:56.999999Z"`},
		{"datetime_min", time.Time{}, timeOf(time.Time{}), `"0001-01-01T00:00:00.000000Z"`},
		{"datetime_epoch", time.Unix(0, 0).UTC(), timeOf(time.Unix(0, 0)), `"1970-01-01T00:00:00.000000Z"`},
		{"datetime_max", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), timeOf(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)), `"9999-12-31T23:59:59.999999Z"`},
		{"datetime_tz_utc", time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC), nil, `"2024-01-02T03:04:05.000006Z"`},
		{"xmlrpc_datetime", time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), func() (Ext, error) { return FromXMLRPC(time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC)) }, `"2024-01-02T03:04:05.000000Z"`},
		{"date", time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC), func() (Ext, error) { return FromDate(time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC)) }, `"2024-01-02"`},
		{"uuid", uuid.MustParse(someUUID), func() (Ext, error) { return FromUUID(uuid.MustParse(someUUID)), nil }, `"` + someUUID + `"`},
		{"count_from_1", [2]int64{1, 1}, func() (Ext, error) { return FromCount(1, 1), nil }, `{"count":[1,1]}`},
		{"count_3_2", [2]int64{3, 2}, func() (Ext, error) { return FromCount(3, 2), nil }, `{"count":[3,2]}`},
		{"ipv4", "10.0.0.1", ipOf("10.0.0.1"), `"10.0.0.1"`},
		{"ipv6", "0.0.255.255", ipOf("0.0.255.255"), `"0.0.255.255"`}, // ::ffff once
		{"set_1", []any{int64(1)}, func() (Ext, error) { return FromSet([]any{1}) }, `[1]`},
		{"frozenset_1", []any{int64(1)}, func() (Ext, error) { return FromFrozenset([]any{1}) }, `[1]`},
	} {
		raw := golden[c.name]
		e, ok := decode(t, raw).(Ext)
		if !ok {
			t.Errorf("%s is no extension", c.name)
			continue
		}
		seen++
		got, err := meaning(e)
		same(t, got, err, c.want)
		shown, err := ToJSON(e)
		same(t, string(shown), err, c.json)
		if c.make != nil {
			made, err := c.make()
			same(t, made, err, e)
		}
	}
	for name, raw := range golden {
		if _, ok := decode(t, raw).(Ext); ok {
			seen--
		} else if strings.HasPrefix(name, "date") {
			t.Errorf("%s is no extension", name)
		}
	}
	if seen != 0 {
		t.Error("there are extensions that were not looked at")
	}
}

func timeOf(at time.Time) func() (Ext, error) {
	return func() (Ext, error) {
		e, err := FromTime(at)
		if err != nil {
			return e, err
		}
		b, err := AppendTime([]byte("before"), at)
		if want, _ := Append([]byte("before"), e, Limits{}); !bytes.Equal(b, want) {
			return e, fmt.Errorf("AppendTime writes %x, FromTime %x", b, want)
		}
		return e, err
	}
}

// meaning is what the function for the code of e says; of an address its text.
func meaning(e Ext) (any, error) {
	switch e.Code {
	case CodeUUID:
		return UUID(e)
	case CodeCount:
		start, step, err := Count(e)
		return [2]int64{start, step}, err
	case CodeIP:
		a, err := IP(e)
		return a.String(), err
	case CodeSet, CodeFrozenset:
		return Set(e)
	case CodeDate:
		return Date(e)
	}
	return Time(e)
}

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

func TestGoldenPostings(t *testing.T) {
	golden := goldens(t)
	plain := decode(t, golden["posting_plain"]).(Map)
	created, ok := plain.Get("created_on")
	if !ok {
		t.Fatal("there is no created_on")
	}
	at, err := Time(created.(Ext))
	same(t, at, err, time.Date(2026, 11, 21, 0, 15, 3, 92269000, time.UTC))
	same(t, plain, nil, Map{
		{"uuid", someUUID}, {"name", "job-1"}, {"priority", "NORMAL"}, {"created_on", created}, {"details", Map{}}, {"sequence", int64(1)},
	})
	// The same from Go values.
	built := Map{{"uuid", someUUID}, {"name", "job-1"}, {"priority", "NORMAL"}, {"created_on", at}, {"details", map[string]any{}}, {"sequence", 1}}
	same(t, encode(t, built), nil, golden["posting_plain"])
	for _, priority := range []string{"VERY_HIGH", "HIGH", "NORMAL", "LOW", "VERY_LOW"} {
		got, _ := decode(t, golden["posting_"+priority]).(Map).Get("priority")
		same(t, got, nil, any(priority))
	}
	shown, err := ToJSON(decode(t, golden["posting_full"]))
	same(t, string(shown), err, `{"uuid":"`+someUUID+`","name":"job-3","priority":"VERY_HIGH","created_on":"2026-11-21T00:15:03.092269Z",`+
		`"details":{"flow_uuid":"`+someUUID+`","store":{"a":2,"b":[1,2.5,null,true,"é"]},"raw":{"bytes":"AP8="},"when":"2026-11-21T00:15:03.092269Z"},`+
		`"book":{"name":"my-book","uuid":"11111111-2222-3333-4444-555555555555"},"sequence":300}`)
	book, _ := decode(t, golden["posting_book"]).(Map).Get("book")
	same(t, book, nil, any(Map{{"name", "my-book"}, {"uuid", "11111111-2222-3333-4444-555555555555"}}))
}

func ipOf(text string) func() (Ext, error) {
	return func() (Ext, error) { return FromIP(netip.MustParseAddr(text)) }
}
