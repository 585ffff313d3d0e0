package zkboard

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
	"github.com/taktworks/takt/internal/testenv"
)

// golden are the nodes that TaskFlow 5.0.0 wrote, by name.
func golden(t testing.TB) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/taskflow-golden.json")
	testenv.Must(t, err)
	var file struct {
		Vectors []struct{ Name, JSON string }
	}
	testenv.Must(t, json.Unmarshal(raw, &file))
	all := map[string]string{}
	for _, v := range file.Vectors {
		all[v.Name] = v.JSON
	}
	return all
}

const job7 = "job0000000007"

func TestGoldenNodesAreWrittenAgainToTheByte(t *testing.T) {
	all := golden(t)
	if len(all) != 4 {
		t.Fatalf("%d vectors, want 4", len(all))
	}
	plain, err := decodePosting(job7, []byte(all["zk_posting_plain"]), nil)
	testenv.Must(t, err)
	if raw, err := encodePosting(plain); string(raw) != all["zk_posting_plain"] || err != nil {
		t.Errorf("posting is %s, %v", raw, err)
	}
	owner, owned := decodeOwner([]byte(all["zk_lock"]))
	if raw := encodeLock(owner); string(raw) != all["zk_lock"] || !owned {
		t.Errorf("lock is %s", raw)
	}
	e, err := decodeEntity([]byte(all["zk_entity"]))
	testenv.Must(t, err)
	if raw, err := encodeEntity(e); string(raw) != all["zk_entity"] || err != nil {
		t.Errorf("entity is %s, %v", raw, err)
	}
}

// Python keeps the order in which the keys of details were set; ours are sorted. So the parts between commas are compared, sorted.
func TestGoldenPostingWithEverything(t *testing.T) {
	want := golden(t)["zk_posting_full"]
	p, err := decodePosting(job7, []byte(want), &zk.Stat{Ctime: 1795219503092})
	testenv.Must(t, err)
	raw, err := encodePosting(p)
	testenv.Must(t, err)
	parts := func(s string) []string {
		return slices.Sorted(strings.SplitSeq(strings.NewReplacer("{", "", "}", "", `"details": `, "").Replace(s), ", "))
	}
	if got := string(raw); !slices.Equal(parts(got), parts(want)) || len(got) != len(want) {
		t.Errorf("written as %s, want %s", got, want)
	}
	if p.Name != "jöb-2" || p.Priority != driver.High || p.Book.Name != "my-book" || p.Sequence != 7 || p.Details["when"] != "2026-11-21T00:15:03.092269" {
		t.Errorf("read as %+v", p)
	}
	if p.CreatedOn != time.Date(2026, 11, 21, 0, 5, 3, 92e6, time.UTC) {
		t.Errorf("created %v", p.CreatedOn)
	}
}

// The right side is what json.dumps of Python 3.11 gives.
func TestValuesAreWrittenAsPythonDoes(t *testing.T) {
	for want, v := range map[string]any{
		"null": nil, "true": true, "-5": int64(-5), "18446744073709551615": uint64(math.MaxUint64),
		"0.0": 0.0, "-0.0": math.Copysign(0, -1), "1.0": 1.0, "1.5": 1.5, "0.1": 0.1, "100000.0": 1e5, "1000000000000000.0": 1e15, "1e+16": 1e16, "1.5e+300": 1.5e300,
		"0.0001": 1e-4, "1e-05": 1e-5, "1.2345e-07": 1.2345e-7, "5e-324": 5e-324, "-1.7976931348623157e+308": -math.MaxFloat64, "9007199254740993.0": 9007199254740993.0 + 1,
		`"a\"\\/\n\r\t\b\f\u0001\u007f\u00f6\u2713\ud83d\ude00"`: "a\"\\/\n\r\t\b\f\x01\x7fö✓😀",
		`"2024-01-02T03:04:05.000006"`:                           time.Date(2024, 1, 2, 4, 4, 5, 6000, time.FixedZone("", 3600)),
		`[1, "x", [], {}]`:                                       []any{int64(1), "x", []any{}, map[string]any{}},
		`{"a": 1, "b": {"c": null}}`:                             map[string]any{"b": map[string]any{"c": nil}, "a": int64(1)},
	} {
		if want == "9007199254740993.0" {
			want = "9007199254740994.0"
		}
		if got, err := appendValue(nil, v, "Details"); string(got) != want || err != nil {
			t.Errorf("%#v is written as %s, %v, want %s", v, got, err, want)
		}
	}
}

func TestWhatJSONCannotSayIsRefused(t *testing.T) {
	for path, v := range map[string]any{"Details.a": []byte("x"), "Details.b[1]": []any{int64(1), math.NaN()}, "Details.c.d": map[string]any{"d": math.Inf(1)}, "Details.e": driver.Ext{Code: 4}} {
		key := path[len("Details.") : len("Details.")+1]
		_, err := encodePosting(&driver.Posting{UUID: "u", Name: "n", Details: map[string]any{key: v}})
		if e, ok := errors.AsType[*driver.InvalidError](err); !ok || e.Field != path {
			t.Errorf("%v does not name %s", err, path)
		}
	}
}

func TestReadingIsLenient(t *testing.T) {
	p, err := decodePosting(job7, []byte("\t{\"x_note\":[1,18446744073709551615,1e3,1e999,-Infinity,\"\\\"NaN\"],\n \"name\" : 5,\"uuid\":\"ü\",\"book\":{}, \"details\":null}\r\n"), nil)
	testenv.Must(t, err)
	want := &driver.Posting{Ref: job7, Sequence: 7, UUID: "ü", Name: "5", Extra: map[string]any{"x_note": []any{int64(1), uint64(math.MaxUint64), 1000.0, math.Inf(1), math.Inf(-1), `"NaN`}}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("read %+v, want %+v", p, want)
	}
	if p, err = decodePosting(job7, []byte(`{"uuid": null, "name": null, "priority": "very_high"}`), nil); err != nil || p.UUID != job7 || p.Name != "" || p.Priority != driver.VeryHigh {
		t.Errorf("read %+v, %v", p, err)
	}
}

func TestMalformedNodes(t *testing.T) {
	const fine = `{"uuid": "u", "name": "n"}`
	for _, bad := range []struct{ ref, raw, why string }{
		{"jobx", fine, "not job and a number"}, {"job", fine, "number"}, {"job+5", fine, "number"}, {"job99999999999999999999", fine, "number"}, {"other", fine, "number"},
		{job7, "", "not JSON"}, {job7, "[]", "want an object"}, {job7, fine + "x", "more follows"}, {job7, fine + "{}", "more follows"}, {job7, "{\"uuid\": \"\xff\"}", "not UTF-8"},
		{job7, `{"uuid": "u"}`, "name: is missing"}, {job7, `{"name": "n"}`, "uuid: is missing"}, {job7, `{"uuid": [1], "name": "n"}`, "uuid"},
		{job7, `{"uuid": "u", "name": "n", "priority": "HUGE"}`, "priority"}, {job7, `{"uuid": "u", "name": "n", "priority": null}`, "priority"},
		{job7, `{"uuid": "u", "name": "n", "details": [1]}`, "details"}, {job7, `{"uuid": "u", "name": "n", "book": {"name": "b"}}`, "book"},
		{job7, `{"uuid": "u", "name": "n", "details": {"f": Infinit}}`, "not JSON"}, {job7, `{"uuid": "u", "name": "n", "details": {"a": ` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}}`, "nested"},
	} {
		if _, err := decodePosting(bad.ref, []byte(bad.raw), nil); err == nil || !strings.Contains(err.Error(), bad.why) {
			t.Errorf("%s %.60s: %v, want %s", bad.ref, bad.raw, err, bad.why)
		}
	}
}

func TestOwners(t *testing.T) {
	for raw, want := range map[string]string{`{"owner": "w\u00f6"}`: "wö", `{"fence": 7, "owner":"w"}`: "w", `{"owner": 5}`: "5"} {
		if owner, owned := decodeOwner([]byte(raw)); owner != want || !owned {
			t.Errorf("%s: %q, %v", raw, owner, owned)
		}
	}
	for _, raw := range []string{`{}`, `{"owner": ""}`, `{"owner": null}`} {
		if owner, owned := decodeOwner([]byte(raw)); owner != "" || owned {
			t.Errorf("%s: %q, %v", raw, owner, owned)
		}
	}
	for _, raw := range []string{``, `x`, `[]`, "\xff"} {
		if owner, owned := decodeOwner([]byte(raw)); owner == "" || !owned {
			t.Errorf("%q: %q, %v", raw, owner, owned)
		}
	}
}

// What is read can be written, and reads as the same.
func FuzzPosting(f *testing.F) {
	for _, v := range golden(f) {
		f.Add([]byte(v))
	}
	f.Add([]byte(`{"uuid":"\ud83d\ude00","name":-0.0,"details":{"a":[1e16,1E-5,18446744073709551616]},"x":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodePosting(job7, raw, nil)
		if err != nil {
			return
		}
		again, err := encodePosting(p)
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		q, err := decodePosting(job7, again, nil)
		if err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if p.Details == nil && q.Details == nil && !reflect.DeepEqual(p, q) || len(p.Details) != len(q.Details) {
			t.Errorf("%s\nread %+v, written as\n%s\nread %+v", raw, p, again, q)
		}
		third, err := encodePosting(q)
		if err != nil || string(third) != string(again) {
			t.Errorf("written as\n%s, then as\n%s, %v", again, third, err)
		}
	})
}

func FuzzOwner(f *testing.F) {
	f.Add([]byte(`{"owner": "w"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		owner, owned := decodeOwner(raw)
		if owned == (owner == "") {
			t.Errorf("%q: owner %q, %v", raw, owner, owned)
		}
	})
}
