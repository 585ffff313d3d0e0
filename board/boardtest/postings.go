package boardtest

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/taktworks/takt/board"
)

var postings = map[string]func(*world){
	"board_iter_empty": func(w *world) {
		if got := w.list(w.b, board.ListOptions{}); len(got) != 0 {
			w.Errorf("an empty board lists %q", got)
		}
		if n, err := w.b.Count(w.ctx); n != 0 || err != nil {
			w.Errorf("count is %d, %v", n, err)
		}
	},

	"fresh_iter: what another has posted is listed": func(w *world) {
		peer := w.open()
		w.one()
		if got := w.list(peer, board.ListOptions{}); !slices.Equal(got, []string{"one"}) {
			w.Errorf("lists %q", got)
		}
	},

	"posting_with_book, posting_received_raw: a posting comes back as it was posted": func(w *world) {
		before := time.Now()
		p, err := w.b.Post(w.ctx, board.Draft{
			Name: "wörk ✓", Priority: board.High, Book: &board.Book{Name: "log", UUID: "11111111-2222-3333-4444-555555555555"},
			Details: map[string]any{"flow_uuid": "x", "store": map[string]any{"n": 3, "list": []string{"a", "b"}, "yes": true, "none": nil, "f": 1.5, "small": -5, "large": int64(math.MaxInt64)}},
		})
		w.must(err)
		rows, err := w.open().List(w.ctx, board.ListOptions{})
		w.must(err)
		if len(rows) != 1 {
			w.Fatalf("%d postings", len(rows))
		}
		r := rows[0]
		want := map[string]any{"flow_uuid": "x", "store": map[string]any{
			"n": int64(3), "list": []any{"a", "b"}, "yes": true, "none": nil, "f": 1.5, "small": int64(-5), "large": int64(math.MaxInt64),
		}}
		if r.UUID != p.UUID || r.Name != "wörk ✓" || r.Priority != board.High || r.Sequence != p.Sequence || r.Ref != p.Ref || *r.Book != *p.Book {
			w.Errorf("posted %+v, got %+v", p, r.Posting)
		}
		if !reflect.DeepEqual(r.Details, want) {
			w.Errorf("details are %#v, want %#v", r.Details, want)
		}
		if d := r.CreatedOn.Sub(before); d < -2*time.Second || d > patience || r.CreatedOn.Location() != time.UTC {
			w.Errorf("created %v, posted at %v", r.CreatedOn, before)
		}
	},

	"higher priority first, then older first": func(w *world) {
		_, err := w.b.PostBatch(w.ctx, []board.Draft{
			{Name: "low", Priority: board.Low}, {Name: "n1"}, {Name: "urgent", Priority: board.VeryHigh}, {Name: "n2"}, {Name: "last", Priority: board.VeryLow}, {Name: "high", Priority: board.High}, {Name: "n3"},
		})
		w.must(err)
		want := []string{"urgent", "high", "n1", "n2", "n3", "low", "last"}
		if got := w.list(w.b, board.ListOptions{}); !slices.Equal(got, want) {
			w.Errorf("order is %q, want %q", got, want)
		}
		var iterated, claimed []string
		for r, err := range w.b.Iterate(w.ctx, board.ListOptions{}) {
			w.must(err)
			iterated = append(iterated, r.Name)
		}
		for range want {
			c, err := w.b.ClaimNext(w.ctx, "w", board.ClaimOptions{})
			w.must(err)
			claimed = append(claimed, c.Posting().Name)
			w.must(c.Consume(w.ctx))
		}
		if !slices.Equal(iterated, want) || !slices.Equal(claimed, want) {
			w.Errorf("iterated %q, claimed %q, want %q", iterated, claimed, want)
		}
	},

	"a listing has the states and owners of one moment": func(w *world) {
		all := w.post("a", "b", "c")
		c := w.claim(w.b, all[1], "w")
		rows, err := w.open().List(w.ctx, board.ListOptions{})
		w.must(err)
		for i, r := range rows {
			state, owner := board.Unclaimed, ""
			if i == 1 {
				state, owner = board.Claimed, c.Owner()
			}
			if r.State != state || r.Owner != owner {
				w.Errorf("%s is %v of %q, want %v of %q", r.Name, r.State, r.Owner, state, owner)
			}
		}
		if got := w.list(w.b, board.ListOptions{OnlyUnclaimed: true}); !slices.Equal(got, []string{"a", "c"}) {
			w.Errorf("unclaimed are %q", got)
		}
		w.must(c.Abandon(w.ctx))
	},

	"a record that is no posting is reported and left": func(w *world) {
		w.spoil = true
		p := w.one()
		ref := w.kind.Spoil(w.T, w.b)
		var seen []board.Malformed
		rows, err := w.b.List(w.ctx, board.ListOptions{OnMalformed: func(m board.Malformed) { seen = append(seen, m) }})
		w.must(err)
		if len(rows) != 1 || rows[0].UUID != p.UUID || len(seen) != 1 || seen[0].Ref != ref || seen[0].Err == nil {
			w.Fatalf("listed %v, reported %v", rows, seen)
		}
		if n, err := w.b.Count(w.ctx); n != 2 || err != nil {
			w.Errorf("count is %d, %v: the record is to be left", n, err)
		}
		if _, err := w.b.Find(w.ctx, ref); as[board.Malformed](w, err).Ref != ref {
			w.Errorf("found: %v", err)
		}
		c, err := w.b.ClaimNext(w.ctx, "w", board.ClaimOptions{})
		w.must(err)
		w.must(c.Consume(w.ctx))
		problems, err := w.b.Check(w.ctx)
		w.must(err)
		if len(problems) == 0 || !strings.Contains(problems[0], ref) {
			w.Errorf("check finds %q", problems)
		}
		as[*board.InvalidError](w, w.b.Quarantine(w.ctx, w.post("fine")[0].Ref))
		w.must(w.b.Quarantine(w.ctx, ref))
		if got := w.list(w.b, board.ListOptions{OnMalformed: func(m board.Malformed) { w.Errorf("still there: %v", m) }}); len(got) != 1 {
			w.Errorf("listed %q", got)
		}
		w.is(w.b.Quarantine(w.ctx, ref), board.ErrNotFound)
	},

	"what TaskFlow could not read is not posted": func(w *world) {
		deep := any("x")
		for range 200 {
			deep = []any{deep}
		}
		for _, bad := range []struct {
			field string
			draft board.Draft
		}{
			{"Name", board.Draft{}},
			{"Name", board.Draft{Name: "\xff"}},
			{"Name", board.Draft{Name: strings.Repeat("n", board.MaxName+1)}},
			{"priority", board.Draft{Name: "n", Priority: 3}},
			{"UUID", board.Draft{Name: "n", UUID: "0B7DA2C7-1235-4ADE-86B0-1A569887709B"}},
			{"UUID", board.Draft{Name: "n", UUID: "x"}},
			{"Book.UUID", board.Draft{Name: "n", Book: &board.Book{Name: "b"}}},
			{"Details.m", board.Draft{Name: "n", Details: map[string]any{"m": map[int]string{1: "x"}}}},
			{"Details.t", board.Draft{Name: "n", Details: map[string]any{"t": "\xff"}}},
			{"Details.c", board.Draft{Name: "n", Details: map[string]any{"c": make(chan int)}}},
			{"Details.s[0]", board.Draft{Name: "n", Details: map[string]any{"s": []any{struct{}{}}}}},
			{"Details", board.Draft{Name: "n", Details: map[string]any{"big": strings.Repeat("x", board.MaxDetails+1)}}},
			{"nested too deeply", board.Draft{Name: "n", Details: map[string]any{"d": deep}}},
		} {
			_, err := w.b.PostBatch(w.ctx, []board.Draft{{Name: "good"}, bad.draft})
			if e := as[*board.InvalidError](w, err); !strings.Contains(e.Error(), bad.field) {
				w.Errorf("%v does not name %s", e, bad.field)
			}
		}
		if n, err := w.b.Count(w.ctx); n != 0 || err != nil {
			w.Errorf("count is %d, %v: nothing was to be posted", n, err)
		}
	},

	"what is there under its UUID is not posted again": func(w *world) {
		d := board.Draft{Name: "once", UUID: "0b7da2c7-1235-4ade-86b0-1a569887709b"}
		first, err := w.b.Post(w.ctx, d)
		w.must(err)
		second, err := w.open().Post(w.ctx, d)
		w.must(err)
		if n, err := w.b.Count(w.ctx); n != 1 || err != nil || first.Sequence != second.Sequence || first.Ref != second.Ref {
			w.Errorf("count is %d, %v; posted as %d and %d", n, err, first.Sequence, second.Sequence)
		}
		_, err = w.b.PostBatch(w.ctx, []board.Draft{d, d})
		as[*board.InvalidError](w, err)
	},

	"sequence numbers rise, over batches and boards": func(w *world) {
		last := int64(-1)
		for _, b := range []*board.Board{w.b, w.open(), w.b} {
			all, err := b.PostBatch(w.ctx, make3("n"))
			w.must(err)
			for _, p := range all {
				if p.Sequence <= last {
					w.Errorf("%d follows %d", p.Sequence, last)
				}
				last = p.Sequence
			}
		}
	},

	"posting_dates: modified is never before created, and later after a claim is given back": func(w *world) {
		p := w.one()
		r, err := w.b.Find(w.ctx, p.UUID)
		w.must(err)
		if !r.LastModified.Equal(r.CreatedOn) {
			w.Errorf("created %v, modified %v", r.CreatedOn, r.LastModified)
		}
		w.must(w.claim(w.b, p, "w").Abandon(w.ctx))
		_, err = w.b.At(w.ctx, "no-such-ref")
		w.is(err, board.ErrNotFound)
		r, err = w.b.At(w.ctx, p.Ref)
		w.must(err)
		if r.LastModified.Before(r.CreatedOn) {
			w.Errorf("created %v, modified %v", r.CreatedOn, r.LastModified)
		}
	},

	"connect: a closed board says so": func(w *world) {
		b := w.open()
		w.must(b.Close())
		_, err := b.Count(w.ctx)
		w.is(err, board.ErrClosed)
		_, err = b.Post(w.ctx, board.Draft{Name: "n"})
		w.is(err, board.ErrClosed)
		w.is(b.Wait(w.ctx), board.ErrClosed)
		w.must(b.Close())
	},
}

func make3(name string) []board.Draft { return []board.Draft{{Name: name}, {Name: name}, {Name: name}} }
