package recipe

import (
	"encoding/json"
	"testing"
)

func BenchmarkCompile(b *testing.B) {
	data := testdata(b, "gearbox.json")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecide is one answer that leads to the next step: the documents as read, to
// the documents as written.
func BenchmarkDecide(b *testing.B) {
	r := begin(b, string(testdata(b, "gearbox.json")), map[string]any{"mark": "label"})
	r.pull(gearbox+"pallet_arrived.v1", `{}`).pull(gearbox+"camera_result.v1", `{"ok":true}`)
	r.answer("place_cover", "")
	a := Answer{CommandID: r.last("press_bearings").ID, Result: json.RawMessage(`{"force_kn":12.4}`)}
	b.ReportAllocs()
	for b.Loop() {
		x, err := DecodeExecution(r.execution)
		if err != nil {
			b.Fatal(err)
		}
		out := r.p.Answer(r.o, Docs{Execution: x}, a, epoch)
		if out.Docs.Execution.CurrentStep != "Tighten" || len(out.Docs.Execution.Encode()) == 0 {
			b.Fatal(out)
		}
	}
}
