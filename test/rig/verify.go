package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// Verify waits until everything is at rest and then compares the ledgers of the MES and of the station with each other, and
// lets takt check compare store, streams and retained topics: every order that was accepted has one result, which is its own;
// every command was carried out once and has the one id of its action, iteration and attempt; nothing is left behind.
func (w *World) Verify(m *MES) {
	w.T.Helper()
	w.VerifyLedger(m)
	for id, results := range m.Ledger().Results {
		for _, r := range results {
			w.VerifyResult(id, r)
		}
	}
	w.VerifyStation()
	w.AtRest()
	w.Check()
}

// VerifyLedger says whether every order was accepted and has one result.
func (w *World) VerifyLedger(m *MES) {
	w.T.Helper()
	l := m.Ledger()
	w.T.Log(l.summary())
	for id, why := range l.Refused {
		w.T.Errorf("%s was refused: %s", id, why)
	}
	for id, err := range l.Unknown {
		w.T.Errorf("%s was never answered: %v", id, err)
	}
	for id := range l.Accepted {
		if n := len(l.Results[id]); n != 1 {
			w.T.Errorf("%s has %d results, want 1", id, n)
		}
	}
}

// VerifyResult says whether a result is the order's own, and whole.
func (w *World) VerifyResult(id string, r isa95.JobResponse) {
	w.T.Helper()
	state, err := isa95.ParseState(r.JobState)
	if err != nil || state.String() != "Ended_Completed" {
		w.T.Errorf("%s ended as %s (%v), want Ended_Completed", id, state, err)
		w.Explain(id)
		return
	}
	data := map[string]string{}
	for _, p := range r.JobResponseData {
		data[p.ID] = string(p.Value)
	}
	own := `"` + id + `"`
	names := []string{"place_cover.placed_for", "camera_check.seen_for", "inspect_torque.checked_for", "release_pallet.released_for"}
	if w.opt.Commands {
		names = []string{"clamp.clamped_for", "heat.heated_for", "press.pressed_for", "release.released_for"}
	}
	for _, name := range names {
		if data[name] != own {
			w.T.Errorf("%s: %s is %s, want %s", id, name, data[name], own)
		}
	}
	if w.opt.Commands {
		return
	}
	if data["inspect_torque.ok"] != "true" {
		w.T.Errorf("%s: ended with inspect_torque.ok %s", id, data["inspect_torque.ok"])
	}
	if laser, label := data["laser_mark.marked_for"] == own, data["print_label.labelled_for"] == own; laser == label {
		w.T.Errorf("%s: marked by laser %v, by label %v, want one of them", id, laser, label)
	}
}

// Explain logs what the station did for an order, and what Takt knows of it.
func (w *World) Explain(id string) {
	w.T.Helper()
	for _, e := range w.StationLog() {
		if e.Order == id {
			w.T.Logf("%s %-9s %s %s %s %s", e.Time.Format("15:04:05.000"), e.Kind, e.Action, e.Type, e.Command, e.Event)
		}
	}
	w.T.Log(w.Takt("job", "show", id).Stdout)
}

// StationLogFile is where the station keeps its log.
func (w *World) StationLogFile() string { return w.log }

// StationLog is what the station did so far. Its entries must not be changed.
func (w *World) StationLog() []station.Entry {
	w.T.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	testenv.Must(w.T, w.done.read(w.log))
	return w.done.entries
}

// Executed is how many commands the station has carried out.
func (w *World) Executed() int {
	w.T.Helper()
	w.StationLog()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done.executed
}

// stationLog is the log of a station as far as it was read: it is long, and it is looked at often.
type stationLog struct {
	offset   int64
	entries  []station.Entry
	executed int // commands carried out
}

// read reads on, up to the last whole line.
func (l *stationLog) read(name string) error {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, l.offset, 1<<40))
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		var e station.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s: %q is no entry of a station's log: %w", name, line, err)
		}
		l.entries = append(l.entries, e)
		if e.Kind == station.Executed {
			l.executed++
		}
	}
	l.offset += int64(len(text))
	return nil
}

// UntilExecuted waits until the station has carried out n commands.
func (w *World) UntilExecuted(n int) {
	w.T.Helper()
	w.Until(fmt.Sprintf("%d commands carried out", n), func() bool { return w.Executed() >= n })
}

// VerifyStation looks for commands that were carried out twice, and for ids that are not the one id of their action,
// iteration and attempt.
func (w *World) VerifyStation() {
	w.T.Helper()
	VerifyStation(w.T, w.StationLog(), w.Forgets)
}

// VerifyStation is World.VerifyStation for the log of any station. Where Redis forgets, an order may run again, with other command ids, because it forgot that it ran.
func VerifyStation(t testing.TB, entries []station.Entry, forgets bool) {
	t.Helper()
	type attempt struct {
		correlation, action string
		attempt             int
	}
	ids := map[attempt]string{}
	executed := map[string]int{}
	runs := map[string]string{} // order -> correlation of its run
	repeated := 0
	for _, e := range entries {
		switch e.Kind {
		case station.Received:
			a := attempt{e.Correlation, e.Action, e.Attempt}
			if other, ok := ids[a]; ok && other != e.Command {
				t.Errorf("%s: attempt %d of %s has the ids %s and %s", e.Order, e.Attempt, e.Action, other, e.Command)
			}
			ids[a] = e.Command
			if run, ok := runs[e.Order]; ok && run != e.Correlation && !forgets {
				t.Errorf("%s runs twice: correlation ids %s and %s", e.Order, run, e.Correlation)
			}
			runs[e.Order] = e.Correlation
			if !isCommandID(e) {
				t.Errorf("%s: attempt %d of %s has the id %s, which is that of no iteration", e.Order, e.Attempt, e.Action, e.Command)
			}
		case station.Repeated:
			repeated++
		case station.Executed:
			if executed[e.Command]++; executed[e.Command] > 1 {
				t.Errorf("%s: %s was carried out %d times under the id %s", e.Order, e.Action, executed[e.Command], e.Command)
			}
		}
	}
	t.Logf("station: %d commands carried out for %d orders, %d came again", len(executed), len(runs), repeated)
}

// isCommandID says whether the id of a command is the one of its attempt in some iteration: attempts count on over the
// iterations, each of which has at least one.
func isCommandID(e station.Entry) bool {
	for iteration := 1; iteration <= e.Attempt; iteration++ {
		if e.Command == recipe.CommandID(e.Correlation, e.Action, iteration, e.Attempt) {
			return true
		}
	}
	return false
}

// Check runs takt check until it finds nothing: what is being done may be listed for a moment.
func (w *World) Check() {
	w.T.Helper()
	var last Result
	w.Until("takt check finds nothing", func() bool {
		last = w.Takt("check", "--json", "--grace", "1s")
		if last.Code != 0 {
			w.T.Logf("takt check: exit status %d: %s%s", last.Code, last.Stdout, last.Stderr)
		}
		return last.Code == 0
	})
	if last.Stdout != "" {
		w.T.Errorf("takt check --json: exit status 0 with findings: %s", last.Stdout)
	}
}

// AtRest waits until nothing is queued or under way, and looks for keys that somebody forgot.
func (w *World) AtRest() {
	w.T.Helper()
	var left []string
	w.T.Cleanup(func() {
		if w.T.Failed() && len(left) > 0 {
			w.T.Logf("left over: %s", strings.Join(left, "\n  "))
		}
	})
	w.Until("the store is at rest", func() bool {
		left = w.leftOver()
		return len(left) == 0
	})
}

// Quiet waits until everything that was told is done: nothing is queued, and the retained topics are published. Orders may be
// under way.
func (w *World) Quiet() {
	w.T.Helper()
	w.Until("nothing is queued", func() bool {
		for _, name := range queues {
			if w.Redis.Number(w.T, "XLEN", w.Prefix+":"+name) != 0 {
				return false
			}
		}
		if w.Redis.Number(w.T, "EXISTS", w.Keys.PubDirty()) != 0 {
			return false
		}
		changes, err := w.Redis.Must(w.T, "XREVRANGE", w.Keys.ChangesAll(), "+", "-", "COUNT", "1").AsXRange()
		if err != nil || len(changes) == 0 {
			return err == nil
		}
		cursor, err := w.Redis.Must(w.T, "HGET", w.Keys.Cursors(), "_global").ToString()
		return err == nil && cursor == changes[0].ID
	})
}

// lasting are the kinds of keys that stay without an expiry when no order is under way: what the station has, what the
// publisher counts, and the streams, which must be empty unless they are the change streams.
var lasting = []string{
	"workmaster:", "wmx:delivered:", "wmx:content:", "configured-scopes", "equipment:list:", "materialclass:list:", "materialdefinition:list:", "personnel:list:",
	"physicalasset:list:", "jobacceptance:", "active-scopes", "joborder:changes:", "pubseq:", "store-id", "publisher:epoch", "publisher:stream-cursors", "sfc:recipe:", "sfc:clock", "instances", "samples", "console:audit",
}

// queues are the streams of work, which are empty at rest.
var queues = []string{"sfc:work", "sfc:outbox", "event:receiver:list"}

// leftOver lists what is not at rest.
func (w *World) leftOver() (left []string) {
	all, err := w.Redis.AllKeys(w.T.Context())
	if err != nil {
		return []string{err.Error()}
	}
	for _, key := range all {
		name := strings.TrimPrefix(key, w.Prefix+":")
		switch {
		case slices.Contains(queues, name):
			n, err := w.Redis.Do(w.T, "XLEN", key).AsInt64()
			if err != nil || n != 0 {
				left = append(left, fmt.Sprintf("%s has %d entries (%v)", key, n, err))
			}
			left = append(left, w.pending(key)...)
			continue
		case slices.ContainsFunc(lasting, func(p string) bool { return strings.HasPrefix(name, p) }):
			continue
		}
		ttl, err := w.Redis.Do(w.T, "PTTL", key).AsInt64()
		if err != nil || ttl == -1 {
			left = append(left, fmt.Sprintf("%s is left over without an expiry (%v)", key, err))
		}
	}
	return left
}

// pending lists groups of a stream that have entries in hand.
func (w *World) pending(stream string) (left []string) {
	groups, err := w.Redis.Do(w.T, "XINFO", "GROUPS", stream).ToArray()
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", stream, err)}
	}
	for _, g := range groups {
		info, err := g.AsMap()
		if err != nil {
			return []string{fmt.Sprintf("%s: %v", stream, err)}
		}
		pending := info["pending"]
		if n, err := pending.AsInt64(); err != nil || n != 0 {
			left = append(left, fmt.Sprintf("%s has %d entries pending (%v)", stream, n, err))
		}
	}
	return left
}

// Lines decodes standard output of JSON lines.
func Lines[T any](t testing.TB, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}
