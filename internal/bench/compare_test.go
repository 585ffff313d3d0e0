package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
)

// example has made-up figures of two rounds.
func example() *Comparison {
	c := &Comparison{
		Sides: []Side{{Name: "takt", Library: "takt"}, {Name: "bare", Library: "bare"}, {Name: "asynq", Library: "asynq"}, {Name: "asynq_tuned", Library: "asynq"}},
		Rows:  []Row{{"process_per_s", "process, tasks/s"}, {"list_ms", "list, ms"}, {"never_ms", "never measured"}},
		Notes: []string{"a note", "another"},
		Facts: map[string]any{"n": 1000},
	}
	rates := map[string][]float64{"bare": {250_000, 250_000}, "asynq": {8_000, 10_000}, "asynq_tuned": {10_000, 12_500}}
	for round, rate := range []float64{100_000, 150_000} {
		ours := Figures{"process_per_s": rate, "list_ms": 20}
		c.Add("takt", ours, nil)
		for side, theirs := range rates {
			c.Add(side, Figures{"process_per_s": theirs[round]}, ours)
		}
	}
	c.Add("asynq", Figures{"list_ms": 5}, Figures{"list_ms": 20})
	return c
}

// A ratio is the median of the rounds' ratios, of the setting with which the library comes out best; figures that no side has are left out.
func TestTable(t *testing.T) {
	var out strings.Builder
	testenv.Must(t, example().Write(&out, false))
	const want = `
|                  |    takt |    bare | asynq | asynq tuned | takt : bare | takt : asynq |
| ---              |    ---: |    ---: |  ---: |        ---: |        ---: |         ---: |
| process, tasks/s | 125,000 | 250,000 | 9,000 |      11,300 |       0.50x |        11.0x |
| list, ms         |    20.0 |       - |  5.00 |           - |           - |        0.25x |

a note  
another
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestObject(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, example().Write(&out, true))
	var got map[string]float64
	testenv.Must(t, json.Unmarshal(out.Bytes(), &got))
	want := map[string]float64{
		"n": 1000, "takt_process_per_s": 125_000, "bare_process_per_s": 250_000, "asynq_process_per_s": 9_000, "asynq_tuned_process_per_s": 11_250,
		"ratio_bare_process_per_s": 0.5, "ratio_asynq_process_per_s": 13.75, "ratio_asynq_tuned_process_per_s": 11,
		"takt_list_ms": 20, "asynq_list_ms": 5, "ratio_asynq_list_ms": 0.25,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
