package recipe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// canceled are the cancel commands of a run: the action, the attempt, and what became of it.
func (r *run) canceled() []string {
	r.t.Helper()
	var all []string
	for _, c := range r.x().Cancels {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s/%d %s %s%s", c.Action, c.Attempt, c.State, c.Result, c.Error)))
	}
	return all
}

const twoPaths = `step A*
	step B
	step C
	sim X: B | C
	A > X
	do b @ B cancel 5
	do c @ C attempts 2 time 10 cancel 5`

// What calls a command off: Abort, Stop, a time-out, and the failure of another action. An answer does not, nor does the end of a command that never left.
func TestCancel(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(r *run)
		want []string
	}{
		"Abort":           {func(r *run) { r.hold(r.x().Abort("by the MES", r.now)) }, []string{"b/1 dispatched", "c/1 dispatched"}},
		"Stop":            {func(r *run) { r.answer("b", "{}").hold(r.x().Stop(r.now)) }, []string{"c/1 dispatched"}},
		"Abort, paused":   {func(r *run) { r.hold(r.x().Pause(r.now)).hold(r.x().Abort("by the MES", r.now)) }, []string{"b/1 dispatched", "c/1 dispatched"}},
		"time-out":        {func(r *run) { r.answer("b", "{}").wait(10 * time.Second) }, []string{"c/1 dispatched"}},
		"two time-outs":   {func(r *run) { r.answer("b", "{}").wait(20 * time.Second) }, []string{"c/1 dispatched", "c/2 dispatched"}},
		"refusal of b":    {func(r *run) { r.refuse("b", "STATE_INVALID", "open") }, []string{"c/1 dispatched"}},
		"all is answered": {func(r *run) { r.answer("b", "{}").answer("c", "{}") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, twoPaths, nil)
			test.do(r)
			if diff := cmp.Diff(test.want, r.canceled()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The commands that leave are those that the document before has not; their ids follow from what they cancel.
func TestNewCancels(t *testing.T) {
	r := begin(t, twoPaths, nil)
	before := r.x()
	r.answer("b", "{}").wait(10 * time.Second)
	first := r.x()
	sent := first.NewCancels(before)
	if len(sent) != 1 || sent[0].Cancels != r.sent[1].ID || sent[0].ID != CancelID(r.sent[1].ID) || sent[0].TypeID != "cancel.c" || sent[0].Deadline != r.now.Add(5*time.Second) {
		t.Errorf("%+v", sent)
	}
	if again := r.x().Abort("by the MES", r.now).NewCancels(first); len(again) != 1 || again[0].Attempt != 2 {
		t.Errorf("%+v", again)
	}
	if none := first.NewCancels(first); none != nil {
		t.Errorf("%+v", none)
	}
}

// What an answer leaves behind, also after the end of the run; the rest of the document stays as it is.
func TestCanceled(t *testing.T) {
	for name, test := range map[string]struct {
		answer *Answer
		want   string
	}{
		"answered":     {&Answer{Result: json.RawMessage(`{"stopped": true}`)}, `b/1 completed {"stopped":true}`},
		"empty answer": {&Answer{}, "b/1 completed"},
		"refused":      {&Answer{Error: &ActionError{"STATE_INVALID", "done already"}}, "b/1 failed was refused: STATE_INVALID: done already"},
		"unreadable":   {&Answer{Unreadable: "no JSON"}, "b/1 failed was answered, but the answer cannot be read: no JSON"},
		"long":         {&Answer{Result: json.RawMessage(`"` + strings.Repeat("x", maxCancelResult) + `"`)}, "b/1 completed its answer of 4098 bytes is not kept"},
		"no answer":    {nil, "b/1 failed no answer within 5 s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, "step A*\ndo b @ A cancel 5", nil)
			r.hold(r.x().Abort("by the MES", r.now))
			before := r.x()
			x, ok := before.Canceled(CancelID(r.last("b").ID), test.answer)
			if !ok || !before.Terminal() || before.Cancels[0].State != ActionDispatched {
				t.Fatal(ok, before.Cancels)
			}
			r.hold(x)
			if got := r.canceled(); len(got) != 1 || got[0] != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if _, again := x.Canceled(CancelID(r.last("b").ID), test.answer); again {
				t.Error("answered twice")
			}
			x.Cancels, before.Cancels = nil, nil
			if diff := cmp.Diff(string(before.Encode()), string(x.Encode())); diff != "" {
				t.Error(diff)
			}
		})
	}
}
