package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProgram(t *testing.T) {
	data := testdata(t, "gearbox.json")
	p, err := Compile(data)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if p.SHA() != hex.EncodeToString(sum[:]) {
		t.Error(p.SHA())
	}
	if want := []string{gearbox + "pallet_arrived.v1", gearbox + "camera_result.v1", gearbox + "torque_result.v1"}; !slices.Equal(p.PullTypes(), want) {
		t.Error(p.PullTypes())
	}
	r, _ := Decode(data)
	if diff := cmp.Diff(r, p.Recipe()); diff != "" {
		t.Error(diff)
	}
	clear(p.PullTypes())
	if p.PullTypes()[0] == "" {
		t.Error("the program was changed")
	}
}

// Many goroutines decide with one Program.
func TestProgramIsShared(t *testing.T) {
	p := compile(t, string(testdata(t, "gearbox.json")))
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := &run{t: t, p: p, now: epoch, mail: map[string][]byte{}, o: Order{ID: fmt.Sprint("JO-", i), Scope: "cell-07", Parameters: map[string]any{"mark": "label"}}}
			r.take(p.Start(r.o, "WM", "k", nil, epoch))
			r.pull(gearbox+"pallet_arrived.v1", `{}`).pull(gearbox+"camera_result.v1", `{}`)
			r.answer("place_cover", "").answer("press_bearings", "").answer("tighten_cover", "")
			r.pull(gearbox+"torque_result.v1", `{"ok":true}`).want("Running MarkMode [PrintLabel]")
		})
	}
}

func Example() {
	data := []byte(`{
	  "Steps": [{"Name": "Drill", "Initial": true}, {"Name": "Deburr"}],
	  "Transitions": [{"Source": "Drill", "Target": "Deburr", "Condition": "actions.drill.result.depth_mm >= 12"}],
	  "Actions": [
	    {"Name": "drill", "Step": "Drill", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.drill.v1", "TimeoutSeconds": 60},
	    {"Name": "deburr", "Step": "Deburr", "Qualifier": "N", "Interaction": "push_command", "TypeId": "com.acme.deburr.v1", "TimeoutSeconds": 60}
	  ]
	}`)
	for _, f := range Check(data, Options{}) {
		fmt.Println(f.Line, f.Code, f.Severity)
	}
	p, err := Compile(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	order := Order{ID: "JO-1", Scope: "cell-07"}
	out := p.Start(order, "WM-1", "work entry 1-0", nil, epoch)
	for _, result := range []string{`{"depth_mm": 12.5}`, `{"passes": 2}`} {
		command := out.Commands[0]
		fmt.Println(out.Phase, command.Action)
		out = p.Answer(order, out.Docs, Answer{CommandID: command.ID, Result: []byte(result)}, epoch)
	}
	fmt.Println(out.Phase)
	for _, r := range out.Docs.Execution.Results() {
		fmt.Printf("%s = %s\n", r.ID, r.Value)
	}
	// Output:
	// 3 R035 warning
	// Running drill
	// Running deburr
	// Completed
	// drill.depth_mm = 12.5
	// deburr.passes = 2
}
