package interop_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/board/driver"
)

var book = &board.Book{Name: "bestellung-✓", UUID: "6a1cfb18-4f0a-4a4b-9d5e-5f5fcbd4f3a1"}

// many are details with values of all types that both kinds of boards can keep.
func many() map[string]any {
	return map[string]any{
		"text": "größe ✓\n\"x\"", "empty": "", "true": true, "false": false, "none": nil,
		"int": int64(42), "negative": int64(-1), "min": int64(math.MinInt64), "max": int64(math.MaxInt64), "huge": uint64(math.MaxUint64),
		"float": 0.1, "whole": 1.0, "small": 5e-324, "large": math.MaxFloat64,
		"list": []any{int64(1), "two", 3.5, nil, []any{}, map[string]any{"deep": []any{true}}},
		"map":  map[string]any{"a b": int64(1), "": map[string]any{}},
	}
}

// more are details with a value that JSON has not: TaskFlow makes text of it on ZooKeeper.
func (w *world) more() (posted, stored map[string]any) {
	posted, stored = many(), many()
	when := time.Date(2024, 2, 29, 12, 34, 56, 78, time.UTC).Add(9 * time.Microsecond).Truncate(time.Microsecond)
	posted["when"], stored["when"] = when, when
	if w.json {
		stored["when"] = when.Format(isoMicros)
		return posted, stored
	}
	posted["bytes"], stored["bytes"] = []byte{0, 255}, []byte{0, 255}
	posted["inf"], stored["inf"] = math.Inf(1), math.Inf(1)
	return posted, stored
}

var postings = map[string]func(*world){
	"posting_with_book: TaskFlow reads all fields that Takt posts": func(w *world) {
		posted, stored := w.more()
		if !w.json {
			set := frozenset([]any{1, 2})
			posted["set"], stored["set"] = set, set
		}
		for _, d := range []board.Draft{
			{Name: "plain"},
			{Name: "größe ✓", Priority: board.VeryHigh, Details: posted, Book: book},
			{Name: "low", Priority: board.VeryLow, Details: map[string]any{"n": 1}, UUID: "0b7da2c7-1235-4ade-86b0-1a569887709b"},
		} {
			p, err := w.b.Post(w.ctx, d)
			w.must(err)
			w.same(w.find(p.UUID), w.py.find(p.UUID))
			if j := w.py.find(p.UUID); j.Name != d.Name || j.Priority != d.Priority.String() || (j.Book == nil) != (d.Book == nil) {
				w.Errorf("TaskFlow reads %+v, posted %+v", j, d)
			}
		}
		if got := w.py.find(w.list(board.ListOptions{})[0].UUID).Details; !reflect.DeepEqual(got, stored) {
			w.Errorf("TaskFlow reads details\n%#v, want\n%#v", got, stored)
		}
		w.py.count(3)
	},

	"Takt reads all fields that TaskFlow posts": func(w *world) {
		posted, stored := w.more()
		posted["inf"], stored["inf"] = math.Inf(-1), math.Inf(-1) // TaskFlow stores what JSON has not
		deep := any("deep")
		for range 300 {
			deep = []any{deep}
		}
		posted["deep"], stored["deep"] = deep, deep
		details := tag(posted).(map[string]any)
		if !w.json {
			details["set"] = map[string]any{"$frozenset": []any{1, 2}}
			stored["set"] = frozenset([]any{1, 2})
			details["zoned"] = map[string]any{"$datetime": "2024-01-02T03:04:05.000006+00:00"}
			stored["zoned"] = time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC)
		}
		for _, d := range []draft{
			{Name: "plain", Priority: "normal"},
			{Name: "größe ✓", Priority: "VERY_HIGH", Details: details, Book: book},
			{Name: "low", Priority: "very_low", Details: map[string]any{"n": 1}},
		} {
			j := w.py.post(d)
			r := w.find(j.UUID)
			if w.json {
				j.Details = r.Details // TaskFlow shows what it was given, not what it made of it
			}
			w.same(r, j)
			if want, _ := board.ParsePriority(d.Priority); r.Name != d.Name || r.Priority != want || (r.Book == nil) != (d.Book == nil) || r.Extra != nil {
				w.Errorf("Takt reads %+v, posted %+v", r, d)
			}
		}
		if got := w.list(board.ListOptions{})[0].Details; !reflect.DeepEqual(got, stored) {
			w.Errorf("Takt reads details\n%#v, want\n%#v", got, stored)
		}
		if n, err := w.b.Count(w.ctx); n != 3 || err != nil {
			w.Errorf("Takt counts %d, %v", n, err)
		}
		j := w.py.post(draft{Name: "NaN", Details: map[string]any{"text": "\\\"NaN", "nan": tag(math.NaN())}})
		if d := w.find(j.UUID).Details; d["text"] != "\\\"NaN" || !math.IsNaN(d["nan"].(float64)) {
			w.Errorf("Takt reads %v", d)
		}
	},

	"states, owners and order are the same for both": func(w *world) {
		priorities := []board.Priority{board.Low, board.VeryHigh, board.Normal, board.VeryHigh, board.VeryLow, board.Normal, board.High, board.Low}
		for i, p := range priorities {
			name := fmt.Sprint("job ", i)
			if i%2 == 0 {
				w.py.post(draft{Name: name, Priority: p.String()})
				continue
			}
			_, err := w.b.Post(w.ctx, board.Draft{Name: name, Priority: p})
			w.must(err)
		}
		rows := w.list(board.ListOptions{})
		if !slices.IsSortedFunc(rows, func(a, b board.Row) int { return driver.Compare(a.Posting, b.Posting) }) || len(rows) != len(priorities) || rows[0].Name != "job 1" || rows[1].Name != "job 3" {
			w.Errorf("Takt's order: %v", rows)
		}
		mine := w.claim(rows[0].Posting, "takt", board.ClaimOptions{})
		w.claim(rows[1].Posting, "by name", board.ClaimOptions{ExactOwner: true, TTL: board.NoTTL})
		w.py.claim(rows[2].Posting, "taskflow ✓")
		owners := map[string]string{rows[0].UUID: mine.Owner(), rows[1].UUID: "by name", rows[2].UUID: "taskflow ✓"}

		rows, jobs := w.list(board.ListOptions{AsTaskFlow: true}), w.py.list()
		if len(jobs) != len(rows) {
			w.Fatalf("TaskFlow lists %d, Takt %d", len(jobs), len(rows))
		}
		for i, r := range rows {
			if jobs[i].UUID != r.UUID {
				w.Errorf("%d. TaskFlow lists %s, Takt %s", i, jobs[i].Name, r.Name)
			}
			j := w.py.find(r.UUID)
			if want := owners[r.UUID]; r.Owner != want || j.Owner != want || r.State.String() != j.State || (r.State == board.Claimed) != (want != "") {
				w.Errorf("%s: Takt says %v of %q, TaskFlow %s of %q, want %q", r.Name, r.State, r.Owner, j.State, j.Owner, want)
			}
		}
		var free []job
		w.must(w.py.do("list", map[string]any{"only_unclaimed": true}, &free))
		if mine := w.list(board.ListOptions{OnlyUnclaimed: true}); len(free) != len(priorities)-3 || len(mine) != len(free) {
			w.Errorf("unclaimed: TaskFlow %d, Takt %d", len(free), len(mine))
		}
	},

	"posting_dates: times of the last change are the same for both": func(w *world) {
		p := w.posted("one")
		for _, change := range []func(){
			func() { w.py.claim(p, "w") },
			func() { w.must(w.py.finish("abandon", p, "w")) },
			func() { w.must(w.claim(p, "takt", board.ClaimOptions{}).Abandon(w.ctx)) },
		} {
			change()
			var modified any
			w.must(w.py.do("last_modified", map[string]any{"uuid": p.UUID}, &modified))
			theirs, r := untag(w.T, modified).(time.Time), w.find(p.UUID)
			same := r.LastModified.Equal(theirs)
			if w.json { // the claims of Takt write to the posting there, those of TaskFlow do not
				same = !theirs.Before(r.CreatedOn) && !r.LastModified.Before(theirs)
			}
			if !same || r.LastModified.Before(r.CreatedOn) {
				w.Errorf("TaskFlow says %v, Takt %v; created %v", theirs, r.LastModified, r.CreatedOn)
			}
		}
	},

	"what is no posting is skipped and left": func(w *world) {
		good := w.post("good")
		var ref string
		if w.json {
			ref = w.spoil(w.T)
		} else { // TaskFlow writes what it cannot read
			ref = w.py.post(draft{Name: "poison", Details: map[string]any{"$pairs": []any{[]any{1, 2}}}}).UUID
		}
		before, err := w.b.Count(w.ctx)
		w.must(err)
		var told []string
		rows := w.list(board.ListOptions{OnMalformed: func(m board.Malformed) { told = append(told, m.Ref) }})
		if len(rows) != 1 || rows[0].UUID != good.UUID || !slices.Equal(told, []string{ref}) {
			w.Errorf("lists %v, told of %q, want %s", rows, told, ref)
		}
		if _, err := w.b.Find(w.ctx, ref); as[board.Malformed](w, err).Ref != ref {
			w.Errorf("found: %v", err)
		}
		c, err := w.b.ClaimNext(w.ctx, "takt", board.ClaimOptions{})
		w.must(err)
		w.must(c.Consume(w.ctx))
		_, err = w.b.ClaimNext(w.ctx, "takt", board.ClaimOptions{})
		w.is(err, board.ErrNothing)
		if after, err := w.b.Count(w.ctx); err != nil || after != before-1 {
			w.Errorf("count is %d, %v; it was %d before the good one was consumed", after, err, before)
		}

		if err := w.py.do("list", nil, nil); err == nil {
			w.Error("TaskFlow can read it: this test shows nothing")
		}
		if w.json {
			w.must(w.b.Quarantine(w.ctx, ref))
		} else {
			w.is(w.b.Quarantine(w.ctx, ref), board.ErrNotFound) // TaskFlow deleted it
		}
		w.py.count(0)
	},

	"what both do not know survives the trash": func(w *world) {
		const uuid = "0b7da2c7-1235-4ade-86b0-1a569887709b"
		w.must(w.py.do("post_raw", map[string]any{"record": map[string]any{
			"uuid": uuid, "name": "newer", "x_trace": "abc", "x_more": []any{1, map[string]any{"a": nil}}, "details": map[string]any{"n": 1},
		}}, nil))
		want := map[string]any{"x_trace": "abc", "x_more": []any{int64(1), map[string]any{"a": nil}}}
		look := func() board.Row {
			w.Helper()
			r := w.find(uuid)
			if !reflect.DeepEqual(r.Extra, want) || r.Name != "newer" || r.Priority != board.Normal {
				w.Errorf("Takt reads %+v", r.Posting)
			}
			return r
		}
		r := look()
		w.same(r, w.py.find(uuid))
		w.must(w.claim(r.Posting, "takt", board.ClaimOptions{}).Trash(w.ctx))
		look()
		w.must(w.b.Restore(w.ctx, uuid))
		r = look()
		w.same(r, w.py.find(uuid))
		w.py.claim(r.Posting, "w")
		w.must(w.py.finish("trash", r.Posting, "w"))
		w.must(w.b.Restore(w.ctx, uuid))
		look()
	},
}

// same expects Takt and TaskFlow to read the same.
func (w *world) same(r board.Row, j job) {
	w.Helper()
	p := job{
		UUID: r.UUID, Name: r.Name, Priority: r.Priority.String(), State: r.State.String(), Owner: r.Owner, Sequence: r.Sequence, Book: r.Book,
		Details: r.Details, Created: r.CreatedOn, Modified: j.Modified,
	}
	if len(p.Details) == 0 && len(j.Details) == 0 {
		p.Details = j.Details
	}
	if !reflect.DeepEqual(p, j) {
		w.Errorf("Takt reads\n%+v, TaskFlow\n%+v", p, j)
	}
}

// The peer and its tests agree about values.
func TestTags(t *testing.T) {
	t.Parallel()
	w := &world{T: t}
	posted, _ := w.more()
	if got := untag(t, tag(posted)); !reflect.DeepEqual(got, posted) {
		t.Errorf("%#v\nis not\n%#v", got, posted)
	}
}
