package driver

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
)

type (
	text   string
	number int8
	flag   bool
	keyed  map[text]number
)

func TestDetails(t *testing.T) {
	n, s := 7, "x"
	pp := &n
	var nowhere *int
	at := time.Date(2026, 11, 21, 1, 15, 3, 92269999, time.FixedZone("", 3600))
	for name, c := range map[string]struct{ in, want any }{
		"nil":                  {nil, nil},
		"bool":                 {true, true},
		"own bool":             {flag(true), true},
		"int":                  {5, int64(5)},
		"own int":              {number(-5), int64(-5)},
		"uint":                 {uint8(5), int64(5)},
		"greatest int":         {uint64(math.MaxInt64), int64(math.MaxInt64)},
		"above int":            {uint64(math.MaxInt64 + 1), uint64(math.MaxInt64 + 1)},
		"duration":             {time.Second, int64(time.Second)},
		"float32":              {float32(1.5), 1.5},
		"infinite":             {math.Inf(-1), math.Inf(-1)},
		"text":                 {"ä", "ä"},
		"own text":             {text("ä"), "ä"},
		"whole number of JSON": {json.Number("9007199254740993"), int64(9007199254740993)},
		"great number of JSON": {json.Number("18446744073709551615"), uint64(math.MaxUint64)},
		"float of JSON":        {json.Number("1.5e3"), 1500.0},
		"bytes":                {[]byte("\xff"), []byte("\xff")},
		"array of bytes":       {[2]byte{1, 2}, []byte{1, 2}},
		"no bytes":             {[]byte(nil), nil},
		"time":                 {at, time.Date(2026, 11, 21, 0, 15, 3, 92269000, time.UTC)},
		"pointer to time":      {&at, time.Date(2026, 11, 21, 0, 15, 3, 92269000, time.UTC)},
		"extension":            {Ext{4, []byte("\x91\x01")}, Ext{4, []byte("\x91\x01")}},
		"slice":                {[]string{"a"}, []any{"a"}},
		"no slice":             {[]string(nil), nil},
		"empty slice":          {[]string{}, []any{}},
		"array":                {[2]int{1, 2}, []any{int64(1), int64(2)}},
		"map":                  {keyed{"a": 1}, map[string]any{"a": int64(1)}},
		"no map":               {keyed(nil), nil},
		"pointer":              {&n, int64(7)},
		"pointer to pointer":   {&pp, int64(7)},
		"pointer to text":      {&s, "x"},
		"pointer to nowhere":   {nowhere, nil},
		"list of anything":     {[]any{nil, &s, []any{number(1)}}, []any{nil, "x", []any{int64(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Details(map[string]any{"v": c.in}, 1000)
			testenv.Must(t, err)
			if !reflect.DeepEqual(got, map[string]any{"v": c.want}) {
				t.Errorf("got %#v, want %#v", got["v"], c.want)
			}
		})
	}
	if got, err := Details(map[string]any{"v": math.NaN()}, 1000); err != nil || !math.IsNaN(got["v"].(float64)) {
		t.Errorf("NaN: %v, %v", got, err)
	}
	for _, empty := range []map[string]any{nil, {}} {
		if got, err := Details(empty, 0); got != nil || err != nil {
			t.Errorf("of nothing: %v, %v", got, err)
		}
	}
}

// nest puts v into so many lists.
func nest(v any, levels int) any {
	for range levels {
		v = []any{v}
	}
	return v
}

func TestDetailsRefused(t *testing.T) {
	var self any
	self = &self
	loop := map[string]any{}
	loop["loop"] = loop
	list := make([]any, 1)
	list[0] = list
	for name, c := range map[string]struct {
		in    any
		field string // that the error names
	}{
		"struct":                    {struct{ A int }{1}, "Details.v"},
		"channel":                   {make(chan int), "Details.v"},
		"function":                  {func() {}, "Details.v"},
		"complex":                   {1i, "Details.v"},
		"in a list":                 {[]any{1, map[string]any{"a": func() {}}}, "Details.v[1].a"},
		"text no UTF-8":             {"\xff", "Details.v"},
		"key no UTF-8":              {map[string]int{"\xff": 1}, "Details.v"},
		"keys of numbers":           {map[int]int{1: 2}, "Details.v"},
		"keys of anything":          {map[any]any{"a": 2}, "Details.v"},
		"year 0":                    {time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), "Details.v"},
		"year 10000":                {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "Details.v"},
		"extension of MessagePack":  {Ext{-1, make([]byte, 4)}, "Details.v"},
		"no number of JSON":         {json.Number("x"), "Details.v"},
		"too great number of JSON":  {json.Number("18446744073709551616"), "Details.v"}, // as a float it would be another
		"infinite number of JSON":   {json.Number("1e999"), "Details.v"},
		"pointer to itself":         {self, "Details.v"},
		"map in itself":             {loop, "Details.v.loop.loop"},
		"list in itself":            {list, "Details.v[0][0]"},
		"too deep":                  {nest(1, MaxDepth), "Details.v[0]"},
		"too much":                  {strings.Repeat("x", 10_000), "Details"},
		"too many":                  {make([]int, 2000), "Details"},
		"too many bytes":            {make([]byte, 10_000), "Details"},
		"too much in an extension":  {Ext{4, make([]byte, 10_000)}, "Details"},
		"too much in keys of a map": {map[string]any{strings.Repeat("x", 10_000): nil}, "Details"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Details(map[string]any{"v": c.in}, 9000)
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %d values, %v", len(got), err)
			}
			if !strings.HasPrefix(invalid.Field, c.field) {
				t.Errorf("%v: the field is %q, want %q", err, invalid.Field, c.field)
			}
		})
	}
	if _, err := Details(map[string]any{"v": nest(1, MaxDepth-2)}, 9000); err != nil {
		t.Errorf("%d levels: %v", MaxDepth, err)
	}
}

// What is posted shares nothing with what was given.
func TestDetailsAreCopied(t *testing.T) {
	in := map[string]any{"m": map[string]any{"a": 1}, "l": []any{1}, "b": []byte{1}, "e": Ext{4, []byte{1}}}
	got, err := Details(in, 1000)
	testenv.Must(t, err)
	in["m"].(map[string]any)["a"] = 2
	in["l"].([]any)[0] = 2
	in["b"].([]byte)[0] = 2
	in["e"].(Ext).Data[0] = 2
	want := map[string]any{"m": map[string]any{"a": int64(1)}, "l": []any{int64(1)}, "b": []byte{1}, "e": Ext{4, []byte{1}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
}

func TestPriority(t *testing.T) {
	for p := VeryLow; p <= VeryHigh; p++ {
		for _, text := range []string{p.String(), strings.ToLower(p.String())} {
			if got, err := ParsePriority(text); got != p || err != nil {
				t.Errorf("%s is %v, %v", text, got, err)
			}
		}
	}
	for _, bad := range []string{"", "URGENT", "VERY HIGH", " HIGH", "2"} {
		var invalid *InvalidError
		if got, err := ParsePriority(bad); !errors.As(err, &invalid) {
			t.Errorf("%q is %v, %v", bad, got, err)
		}
	}
	if _, err := Priority(3).MarshalText(); err == nil {
		t.Error("3 is written")
	}
	if got := Priority(-3).String() + State(9).String(); got != "Priority(-3)State(9)" {
		t.Error(got)
	}
}

func TestCompare(t *testing.T) {
	p := func(priority Priority, sequence int64, ref string) *Posting {
		return &Posting{Priority: priority, Sequence: sequence, Ref: ref}
	}
	order := []*Posting{p(VeryHigh, 9, "a"), p(High, math.MinInt64, "a"), p(High, math.MaxInt64, "a"), p(Normal, 1, "a"), p(Normal, 1, "b"), p(VeryLow, 0, "a")}
	for i, a := range order {
		for j, b := range order {
			got := Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%d, %d: %d", i, j, got)
			}
		}
	}
}
