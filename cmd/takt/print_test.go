package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// Columns stay aligned over rows whose last cells are empty, no line ends with spaces, and a table without rows says so.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := newTable(&out, "SCOPE", "STATE", "PRIORITY", "WORK MASTER", "START")
	tab.row("cell-07", "Running", "10", "WM-GEARBOX-COVER-3", "2026-11-23T04:00:00.000Z")
	tab.row("WX-1", "Ended_Completed", "0", "", "")
	tab.row("cell-07", "Ready", "3", "WM-1", "")
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	const want = `SCOPE    STATE            PRIORITY  WORK MASTER         START
cell-07  Running          10        WM-GEARBOX-COVER-3  2026-11-23T04:00:00.000Z
WX-1     Ended_Completed  0
cell-07  Ready            3         WM-1
`
	if out.String() != want {
		t.Errorf("\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := newTable(&out, "SCOPE", "STATE").flush(); err != nil || out.String() != "SCOPE  STATE\n(none)\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Times of documents are shown in one form, whichever program wrote them.
func TestShownTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-23T04:05:06.123456+00:00": "2026-11-23T04:05:06.123Z",
		"2026-11-23T05:05:06+01:00":        "2026-11-23T04:05:06.000Z",
		"2026-11-23T04:05:06Z":             "2026-11-23T04:05:06.000Z",
		"tomorrow":                         "tomorrow",
		"":                                 "",
	} {
		if got := shownTime(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// takt job list takes a state or its first part, and refuses what is none.
func TestJobListFlags(t *testing.T) {
	for state, want := range map[string]int{"": 18, "Running": 1, "AllowedToStart": 4, "AllowedToStart_Ready": 1, "Ended_Completed": 1} {
		c := jobListCmd{State: state}
		if err := c.check(nil); err != nil {
			t.Errorf("%q: %v", state, err)
		}
		n := 0
		for _, s := range isa95.States() {
			if c.shows(s.String()) {
				n++
			}
		}
		if state != "AllowedToStart" && n != want || n == 0 {
			t.Errorf("%q: %d states, want %d", state, n, want)
		}
	}
	for flag, value := range map[string]string{"--state": "Runing", "--limit": "-1"} {
		code, _, errOut := takt("job", "list", flag, value)
		if code != exitUsage || !strings.Contains(errOut, flag) || !strings.Contains(errOut, value) {
			t.Errorf("%s %s: exit status %d, %s", flag, value, code, errOut)
		}
	}
}

// takt recipe draw --json has the picture that takt recipe draw prints.
func TestRecipeDrawJSON(t *testing.T) {
	const file = "../../examples/gearbox-cover/recipe.json"
	_, picture, _ := takt("recipe", "draw", file)
	code, out, errOut := takt("recipe", "draw", "--json", file)
	var d drawn
	if err := json.Unmarshal([]byte(out), &d); code != exitOK || err != nil || d.File != file || d.Format != "text" || d.Drawing != picture || picture == "" {
		t.Errorf("exit status %d, %v: %+v\n%s", code, err, d, errOut)
	}
}

// disk is a file whose writes may fail.
type disk struct {
	text []byte
	read int
	room int   // bytes that are left
	sync error // of Sync
}

func (d *disk) Read(p []byte) (int, error) {
	if d.read == len(d.text) {
		return 0, io.EOF
	}
	n := copy(p, d.text[d.read:])
	d.read += n
	return n, nil
}

func (d *disk) WriteAt(p []byte, _ int64) (int, error) {
	n := min(len(p), d.room)
	d.text = append(d.text, p[:n]...)
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) Truncate(int64) error { d.text = nil; return nil }
func (d *disk) Sync() error          { return d.sync }

var errFull = errors.New("no space left on device")

// A name is used once it is on the disk: a full one leaves an empty file and an error, and what a power failure left of a name is not taken for one.
func TestNamesSurviveAFullDisk(t *testing.T) {
	for _, full := range []*disk{{room: 0}, {room: 5}, {room: 100, sync: errFull}} {
		if name, err := readOrMakeName(full); !errors.Is(err, errFull) || name != "" || len(full.text) != 0 {
			t.Errorf("%q, %v, left %q", name, err, full.text)
		}
		full.room, full.sync, full.read = 100, nil, 0
		name, err := readOrMakeName(full)
		if err != nil || string(full.text) != name+"\n" {
			t.Errorf("%q, %v, left %q", name, err, full.text)
		}
		full.read = 0
		if again, err := readOrMakeName(full); err != nil || again != name {
			t.Errorf("%q, %v, want %q", again, err, name)
		}
	}
	torn := &disk{text: []byte("host-12"), room: 100}
	if name, err := readOrMakeName(torn); err != nil || name == "host-12" || string(torn.text) != name+"\n" {
		t.Errorf("%q, %v, left %q", name, err, torn.text)
	}
}

// takt job show has the parameters of a command under way as they were sent, references resolved.
func TestJobShowHasResolvedParameters(t *testing.T) {
	var out bytes.Buffer
	snap := &jobstore.Snapshot{
		Job: &jobstore.StoredOrder{JobOrder: &isa95.JobOrder{JobOrderID: "JO-7"}, Scope: "m42", State: isa95.State{Top: isa95.Running}},
		Execution: &recipe.Execution{Actions: []recipe.ActionEntry{
			{Name: "fasten", Parameters: []byte(`{"torque":12.50}`)}, {Name: "print"},
		}},
	}
	if err := (&jobShowCmd{}).print(&app{out: &out}, snap, &usedRecipe{WorkMaster: "WM-1"}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, `fasten is under way with {"torque":12.50}`) || strings.Contains(text, "print is under way") {
		t.Error(text)
	}
}
