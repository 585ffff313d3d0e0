package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/msgpack"
	"github.com/taktworks/takt/internal/testenv"
)

func TestJSONBothWays(t *testing.T) {
	for text, raw := range map[string][]byte{
		`null`:                             {0xc0},
		`[]`:                               arrayOf(0),
		`{}`:                               mapOf(0),
		`[true,false,-1,"a<b"]`:            arrayOf(4, []byte{0xc3, 0xc2}, -1, "a<b"),
		`9007199254740993`:                 {0xcf, 0, 0x20, 0, 0, 0, 0, 0, 1},
		`18446744073709551615`:             {0xcf, 255, 255, 255, 255, 255, 255, 255, 255},
		`-9223372036854775808`:             {0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0},
		`2.0`:                              msgpack.AppendFloat64(nil, 2),
		`-0.0`:                             {0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0},
		`1e+300`:                           msgpack.AppendFloat64(nil, 1e300),
		`5e-324`:                           {0xcb, 0, 0, 0, 0, 0, 0, 0, 1},
		`{"$float":"NaN"}`:                 {0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1},
		`{"$float":"-Infinity"}`:           {0xcb, 0xff, 0xf0, 0, 0, 0, 0, 0, 0},
		`{"$float":"Infinity"}`:            {0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0},
		`{"$bin":"AP8="}`:                  {0xc4, 2, 0, 255},
		`{"z":1,"a":{"b":[]}}`:             mapOf(2, "z", 1, "a", mapOf(1, "b", arrayOf(0))),
		`{"$time":"1969-12-31T00:00:00Z"}`: unhex(t, "c70cff00000000fffffffffffeae80"),
		`{"$ext":[-1,{"$bin":"AAAAAH//////////"}]}`: {0xc7, 12, 0xff, 0, 0, 0, 0, 0x7f, 255, 255, 255, 255, 255, 255, 255},
		`{"$ext":[5,{"$bin":"AA=="}]}`:              {0xd4, 5, 0},
		`{"$map":[["$bin","x"]]}`:                   mapOf(1, "$bin", "x"),
		`{"$bin":"x","b":1}`:                        mapOf(2, "$bin", "x", "b", 1),
		`{"$map":[["a",1],["a",2]]}`:                mapOf(2, "a", 1, "a", 2),
		`{"$map":[[{"$bin":"/w=="},{}]]}`:           mapOf(1, []byte{0xc4, 1, 0xff}, mapOf(0)),
		`{"$map":[["$map",[["a",1]]]]}`:             mapOf(1, "$map", arrayOf(1, arrayOf(2, "a", 1))),
		`"\u0000\"\\é"`:                             pack("\x00\"\\é"),
	} {
		shown, err := ToJSON(raw)
		if err != nil || string(shown) != text {
			t.Errorf("%x: %s %v, want %s", raw, shown, err, text)
		}
		back, err := FromJSON([]byte(text))
		expect(t, back, err, raw)
	}
}

func TestFromJSONAsPeopleWriteIt(t *testing.T) {
	for text, raw := range map[string][]byte{
		" [ 1 ,\n 2.50, 1E2 ] ":                 arrayOf(3, 1, msgpack.AppendFloat64(nil, 2.5), msgpack.AppendFloat64(nil, 100)),
		`-0`:                                    {0},
		`{"$time":"2026-01-02T04:04:05+01:00"}`: unhex(t, "d6ff695735a5"),
		`{"$map":[]}`:                           mapOf(0),
		`{"$map":[["a",{"$time":"1970-01-01T00:00:01Z"}]]}`: mapOf(1, "a", []byte{0xd6, 0xff, 0, 0, 0, 1}),
	} {
		got, err := FromJSON([]byte(text))
		expect(t, got, err, raw)
	}
	shown, err := ToJSON(nil)
	same(t, string(shown), err, "null")
}

func TestFromJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "is not JSON",
		`[1,]`:                                  "is not JSON",
		`{} {}`:                                 "is not JSON",
		"\"\xff\"":                              "is not UTF-8",
		`[{"a":1,"a":2}]`:                       `[0]["a"]: is there twice`,
		`[1,18446744073709551616]`:              "[1]: 18446744073709551616 does not fit 64 bits",
		`{"x":-9223372036854775809}`:            `["x"]: -9223372036854775809 does not fit`,
		`1e999`:                                 "1e999 does not fit a float64",
		`{"$bin":1}`:                            `["$bin"]: must be text`,
		`{"$bin":"?"}`:                          "is not base64",
		`{"$bin":"AB=="}`:                       "is not base64",
		`{"$time":"today"}`:                     "want an RFC 3339 time",
		`{"$time":"2026-01-02T03:04:05+24:00"}`: "want an RFC 3339 time",
		`{"$float":"1"}`:                        "must be NaN",
		`{"$ext":5}`:                            "must be [type",
		`{"$ext":[200,{"$bin":""}]}`:            "must be [type",
		`{"$ext":[1,"x"]}`:                      "must be [type",
		`{"$ext":[-1,{"$bin":""}]}`:             "is no timestamp",
		`{"$map":1}`:                            "must be [[key",
		`{"$map":[1]}`:                          "must be [[key",
		`{"$map":[["a"]]}`:                      "must be [[key",
		`{"$map":[[1,1]]}`:                      "must be [[key",
		strings.Repeat("[", 32) + strings.Repeat("]", 32):     "is nested deeper than 31",
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000): "is nested deeper than 31",
	} {
		raw, err := FromJSON([]byte(text))
		if err == nil || raw != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %x %v, want %s", text, raw, err, want)
		}
	}
}

// The deepest value has the deepest JSON, and comes back from it.
func TestDeepestJSON(t *testing.T) {
	raw := bytes.Repeat([]byte{0x81, 0xc4, 0x00}, MaxValueDepth) // {b"": {b"": ...
	raw = append(raw, 0xd4, 5, 0)
	shown, err := ToJSON(raw)
	testenv.Must(t, err)
	back, err := FromJSON(shown)
	expect(t, back, err, raw)
	if _, err := ToJSON(append([]byte{0x91}, raw...)); err == nil {
		t.Error("deeper than a message may be")
	}
	if _, err := ToJSON([]byte{0x81, 1, 1}); err == nil {
		t.Error("T9: a map with an integer key has no JSON of ours")
	}
}
