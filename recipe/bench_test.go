package recipe

import (
	"encoding/json"
	"testing"
	"time"
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
	b.Run("answer", func(b *testing.B) {
		docs := r.docs()
		for b.Loop() {
			if out := r.p.Answer(r.o, docs, a, epoch); out.Docs.Execution.CurrentStep != "Tighten" {
				b.Fatal(out)
			}
		}
	})
	b.Run("answer with documents", func(b *testing.B) {
		for b.Loop() {
			x, err := DecodeExecution(r.execution)
			if err != nil {
				b.Fatal(err)
			}
			out := r.p.Answer(r.o, Docs{Execution: x}, a, epoch)
			if len(out.Docs.Execution.Encode()) == 0 {
				b.Fatal(out)
			}
		}
	})
	b.Run("condition", func(b *testing.B) {
		r.answer("press_bearings", "").answer("tighten_cover", `{"torque_nm":84.7}`)
		docs := r.docs()
		ev := PullEvent{ID: "1", Data: json.RawMessage(`{"ok":false}`)}
		for b.Loop() {
			if out := r.p.Pulled(r.o, docs, "inspect_torque", ev, epoch); out.Docs.Execution.CurrentStep != "Tighten" {
				b.Fatal(out)
			}
		}
	})
	b.Run("tick, nothing due", func(b *testing.B) {
		docs := r.docs()
		for b.Loop() {
			if out := r.p.Tick(r.o, docs, epoch.Add(time.Millisecond)); !out.Stale {
				b.Fatal(out)
			}
		}
	})
}
