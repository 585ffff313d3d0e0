package mes_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

func TestParseOrders(t *testing.T) {
	one := isa95.JobOrder{JobOrderID: "JO-1"}
	two := isa95.JobOrder{JobOrderID: "JO-2", Priority: new(int), JobOrderParameters: []isa95.Parameter{{ID: "mark", Value: json.RawMessage(`"laser"`)}}}
	*two.Priority = 5
	oneText := `{"JobOrderID":"JO-1"}`
	twoText := `{"JobOrderID":"JO-2","Priority":5,"JobOrderParameters":[{"ID":"mark","Value":"laser"}]}`
	for name, row := range map[string]struct {
		text string
		want []mes.OrderList
	}{
		"a station":        {`{"Scope":"cell-07","JobOrders":[` + oneText + `,` + twoText + `]}`, []mes.OrderList{{"cell-07", []isa95.JobOrder{one, two}}}},
		"without a scope":  {`{"JobOrders":[` + oneText + `]}`, []mes.OrderList{{"", []isa95.JobOrder{one}}}},
		"several stations": {` [{"Scope":"a","JobOrders":[` + oneText + `]},{"Scope":"b","JobOrders":[` + twoText + `]}]`, []mes.OrderList{{"a", []isa95.JobOrder{one}}, {"b", []isa95.JobOrder{two}}}},
		"an order":         {oneText, []mes.OrderList{{"", []isa95.JobOrder{one}}}},
		"byte order mark":  {"\xef\xbb\xbf" + oneText, []mes.OrderList{{"", []isa95.JobOrder{one}}}},
		"orders":           {"\n[" + oneText + "," + twoText + "]\n", []mes.OrderList{{"", []isa95.JobOrder{one, two}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mes.ParseOrders("orders.json", []byte(row.text))
			testenv.Must(t, err)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseOrdersErrors(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"empty":          {"", `orders.json:1: must be JSON: unexpected end of JSON input`},
		"syntax":         {"{\n\"Scope\": \"a\",\n\"JobOrders\": [}\n", `orders.json:3: must be JSON: invalid character '}' looking for beginning of value`},
		"UTF-16":         {"\xff\xfe{\x00}\x00", `orders.json:1: the text is UTF-16, must be UTF-8: save or send it as UTF-8`},
		"a number":       {"5", `orders.json:1: must be an object or an array of objects`},
		"a text":         {`"[x]"`, `orders.json:1: must be an object or an array of objects`},
		"nothing":        {`[]`, `orders.json:1: must have at least one job order`},
		"no object":      {"[\n5]", `orders.json:2: [0]: must be an object`},
		"no orders":      {`{"JobOrders":[]}`, `orders.json:1: JobOrders must not be empty`},
		"no array":       {`{"JobOrders":{}}`, `orders.json:1: JobOrders must be an array`},
		"other member":   {"{\"JobOrders\":[],\n \"Cell\":1}", `orders.json:2: member "Cell" is not known here; known are Scope, JobOrders`},
		"scope a number": {`{"Scope":7,"JobOrders":[]}`, `orders.json:1: Scope must be text`},
		"scope":          {`{"Scope":"a/b","JobOrders":[]}`, `orders.json:1: Scope "a/b" must not contain / + # (it becomes a topic level)`},
		"misspelled":     {"[\n{\"JobOrderID\":\"JO-1\"},\n{\"JobOrderID\":\"JO-2\",\"Prioritty\":1}]", `orders.json:3: [1]: member "Prioritty" is not known, did you mean Priority?`},
		"type":           {"{\"JobOrders\":[\n{\"JobOrderID\":\"JO-1\",\n\"Priority\":\"high\"}]}", `orders.json:3: JobOrders[0]: /Priority "high" must be an integer`},
		"member twice":   {"{\"JobOrderID\":\"JO-1\",\n\"Priority\":1,\n\"Priority\":2}", `orders.json:3: /Priority is there twice; send it once`},
		"invisible":      {`{"JobOrderID":"JO-1\u200b"}`, "orders.json:1: (JO-1\u200b): JobOrderID \"JO-1\\u200b\" must not contain characters that cannot be seen (it has U+200B)"},
		"no id":          {`{"JobOrders":[{}]}`, `orders.json:1: JobOrders[0]: JobOrderID "" must not be empty`},
		"id":             {`{"JobOrders":[{"JobOrderID":"a/b"}]}`, `orders.json:1: JobOrders[0] (a/b): JobOrderID "a/b" must not contain / + # (it becomes a topic level)`},
		"twice":          {"[{\"Scope\":\"a\",\"JobOrders\":[{\"JobOrderID\":\"JO-1\"}]},\n{\"Scope\":\"b\",\"JobOrders\":[{\"JobOrderID\":\"JO-1\"}]}]", `orders.json:2: [1]JobOrders[0] (JO-1): the JobOrderID stands in this file twice`},
		"mixed":          {`[{"JobOrderID":"JO-1"},{"Scope":"a","JobOrders":[{"JobOrderID":"JO-2"}]}]`, `orders.json:1: must not mix job orders and lists of them`},
		"priority":       {`{"JobOrderID":"JO-1","Priority":40000}`, `orders.json:1: (JO-1): Priority must be from -32768 to 32767`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mes.ParseOrders("orders.json", []byte(row.text))
			var wrong *mes.OrderFileError
			if !errors.As(err, &wrong) || err.Error() != row.want {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
		})
	}
	if _, err := mes.LoadOrders(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzParseOrders: no text makes it panic; what is taken has usable ids and is taken again when written.
func FuzzParseOrders(f *testing.F) {
	f.Add([]byte(`{"Scope":"cell-07","JobOrders":[{"JobOrderID":"JO-1","Priority":1}]}`))
	f.Add([]byte(`[{"JobOrderID":"JO-1"},{"JobOrderID":"JO-2"}]`))
	f.Add([]byte("[\n{\"Scope\":\"a\",\"JobOrders\":[{}]},5]"))
	if data, err := os.ReadFile("../examples/gearbox-cover/orders.json"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lists, err := mes.ParseOrders("orders.json", data)
		if err != nil {
			var wrong *mes.OrderFileError
			if !errors.As(err, &wrong) || wrong.Line < 1 {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, l := range lists {
			for _, o := range l.JobOrders {
				if _, err := isa95.ParseJobOrderID(o.JobOrderID); err != nil {
					t.Fatal(err)
				}
			}
		}
		again, err := json.Marshal(lists)
		testenv.Must(t, err)
		// OrderList's own field names are those of the file, but an absent scope is not an empty one.
		for _, l := range lists {
			if l.Scope == "" {
				return
			}
		}
		if _, err := mes.ParseOrders("again.json", again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}
