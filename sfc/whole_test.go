package sfc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/jobstore"
)

// gearboxCell plays the equipment of spec G.4: torque is ok at the tries-th time.
func gearboxCell(c *cell, tries int) {
	c.react = func(o request) reaction {
		switch o.Action {
		case "tighten_cover":
			ok := fmt.Sprintf(`{"ok": %v, "try": %d}`, o.nth >= tries, o.nth)
			return reaction{
				result: fmt.Sprintf(`{"torque_nm": 84.70, "try": %d}`, o.nth),
				events: []cloudevent.Event{event07("com.acme.cell.torque_result.v1", o.scope, o.correlation, ok)},
			}
		case "place_cover":
			return reaction{events: []cloudevent.Event{event07("com.acme.cell.camera_result.v1", o.scope+"/cam-2", o.correlation, `{"found":true}`)}}
		}
		return reaction{result: "{}"}
	}
}

// The whole recipe of spec G.4, with torque not ok twice: `tighten_cover` iteration 3.
func TestGearboxRunsWhole(t *testing.T) {
	for _, tc := range []struct {
		mark, last string
		resp2      bool // the older protocol of Redis
	}{{"laser", "laser_mark", false}, {"label", "print_label", true}} {
		t.Run(tc.mark, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			gearboxCell(p.cell, 3)
			e := p.start("a", setup{store: func(o *jobstore.Options) { o.RESP2 = tc.resp2 }})
			p.workMaster("WM-1", gearbox(t))
			p.order("JO-1", "WM-1", "mark", tc.mark)
			p.cell.emit(event07("com.acme.cell.pallet_arrived.v1", "cell-07", "", `{"pallet":"P-118"}`))
			p.await("JO-1", "End", "ResultUpdate")

			if diff := cmp.Diff([]string{"StoreAndStart", "Run", "End", "ResultUpdate"}, p.history("JO-1")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"AllowedToStart_Ready", "Running", "Ended_Completed+response"}, p.statuses("JO-1")); diff != "" {
				t.Errorf("status events: %s", diff)
			}
			snap := p.load("JO-1")
			if got := snap.Job.State.String(); got != "Ended_Completed" {
				t.Errorf("state %s", got)
			}
			x := snap.Execution
			if a := x.Action("tighten_cover"); !x.Completed || a.Iteration != 3 || a.Attempt != 3 {
				t.Errorf("tighten_cover: %+v of %+v", a, x)
			}
			done := p.cell.done("JO-1")
			want := "tighten_cover#1 tighten_cover#2 tighten_cover#3 " + tc.last + "#1 release_pallet#1"
			if got := strings.Join(done, " "); !strings.HasSuffix(got, want) || len(done) != 7 {
				t.Errorf("the equipment did %s", got)
			}
			results := map[string]string{}
			for _, r := range snap.Response.JobResponseData {
				results[r.ID] = string(r.Value)
			}
			for id, value := range map[string]string{
				"await_pallet.pallet": `"P-118"`, "tighten_cover.torque_nm": "84.70", "tighten_cover.try": "3", "inspect_torque.ok": "true",
			} {
				if results[id] != value {
					t.Errorf("result %s is %s, want %s", id, results[id], value)
				}
			}
			if snap.Response.StartTime == "" || snap.Response.EndTime == "" {
				t.Errorf("response without times: %+v", snap.Response)
			}
			for _, o := range []Operation{OpActionState, OpAdvanceStep, OpBranchAdvance, OpFinish, OpStart, OpDispatch} {
				eventually(t, fmt.Sprintf("%s is counted", o), func() bool { return e.counts.of(o, OK) > 0 }) // after its commit
			}
			if n := e.counts.of(OpFinish, OK); n != 1 {
				t.Errorf("finished %d times", n)
			}
			p.settled()
		})
	}
}
