package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gearboxcover "github.com/taktworks/takt/examples/gearbox-cover"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/test/rig"
)

// happened is a line of `takt job history --json` or, with Fact, of `takt recipe simulate --json`.
type happened struct {
	JobOrderID    string `json:"job_order_id"`
	Method, State string
	Facts         []decided
	decided
}

// decided is a fact with its transition.
type decided struct {
	recipe.Fact
	From, To, Condition string
}

// sequences are what happened to an order, without times: first all but the path of the camera, then that path. What is done at once in the paths of a branch has no order but
// that of time. Left out are who stored the order, that an action began to wait, for its event may have been there before, and which pallet the order got.
type sequences [2][]string

func (s *sequences) add(h happened) {
	if h.Method == "Run" {
		s[0] = append(s[0], "Run "+h.State)
	}
	for _, d := range append(h.Facts, h.decided) {
		if d.Kind == "" || d.Kind == recipe.FactWait {
			continue
		}
		if d.Action == "await_pallet" {
			d.Result = nil
		}
		path := 0
		if d.Action == "camera_check" || d.Step == "CameraCheck" {
			path = 1
		}
		s[path] = append(s[path], fmt.Sprint(d.Kind, " ", d.Step, d.Action, " ", d.From, "→", d.To, " if ", d.Condition, " ", d.Iteration, ".", d.Attempt, " ", string(d.Result), d.Error))
	}
	if h.Method == "End" || h.Method == "Abort" { // what the recipe did last ends the order in the same commit
		s[0] = append(s[0], h.Method+" "+h.State)
	}
}

// Each order of the demo takes the same way in the simulation: steps, transitions, commands, answers and events, with their results.
func TestSimulationIsTheDemo(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t)
	store := []string{"--redis", redis.URL, "--prefix", redis.Prefix(t)}
	demo := rig.Run(t, append([]string{"demo", "--json", "--outage", "1s", "--mqtt", testenv.Mosquitto(t).URL}, store...)...)
	if demo.Code != 0 {
		t.Fatalf("exit status %d\n%s%s", demo.Code, demo.Stdout, demo.Stderr)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, gearboxcover.Files); err != nil {
		t.Fatal(err)
	}
	in := func(file string) string { return filepath.Join(dir, file) }
	simulated := rig.Run(t, "recipe", "simulate", in("recipe.json"), "--equipment", in("equipment.yaml"), "--order", in("orders.json"), "--json")
	if simulated.Code != 1 { // one cover is scrap
		t.Fatalf("exit status %d\n%s", simulated.Code, simulated.Stderr)
	}
	want := map[string]*sequences{}
	for _, h := range rig.Lines[happened](t, simulated.Stdout) {
		if want[h.JobOrderID] == nil {
			want[h.JobOrderID] = new(sequences)
		}
		want[h.JobOrderID].add(h)
	}
	lists, err := mes.LoadOrders(in("orders.json"))
	if err != nil {
		t.Fatal(err)
	}
	orders := lists[0].JobOrders
	if len(lists) != 1 || len(orders) != 40 || len(want) != 40 {
		t.Fatalf("%d orders in %d lists, %d simulated", len(orders), len(lists), len(want))
	}
	for _, o := range orders {
		history := rig.Run(t, append([]string{"job", "history", o.JobOrderID, "--json"}, store...)...)
		if history.Code != 0 {
			t.Fatalf("%s: exit status %d\n%s", o.JobOrderID, history.Code, history.Stderr)
		}
		var got sequences
		for _, h := range rig.Lines[happened](t, history.Stdout) {
			got.add(h)
		}
		for path := range got {
			if a, b := got[path], want[o.JobOrderID][path]; !slices.Equal(a, b) {
				t.Errorf("%s:\n%s\nsimulated:\n%s", o.JobOrderID, pretty(a), pretty(b))
			}
		}
		if len(got[0]) < 10 || len(got[1]) != 2 {
			t.Errorf("%s: %s", o.JobOrderID, pretty(got))
		}
	}
}

func pretty(v any) string {
	text, _ := json.MarshalIndent(v, "", "  ")
	return string(text)
}
