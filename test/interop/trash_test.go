package interop_test

import (
	"reflect"

	"github.com/taktworks/takt/board"
)

var trash = map[string]func(*world){
	"trashing_claimed_job: what TaskFlow trashes Takt lists, restores and purges": func(w *world) {
		details := map[string]any{"n": int64(1)}
		j := w.py.post(draft{Name: "bad", Priority: "HIGH", Details: details, Book: book})
		p := w.find(j.UUID).Posting
		w.py.claim(p, "python")
		w.must(w.py.finish("trash", p, "python"))
		w.sees(p, board.Trashed, "")

		rows, err := w.b.TrashList(w.ctx)
		w.must(err)
		if len(rows) != 1 || rows[0].UUID != p.UUID || rows[0].Priority != board.High || rows[0].State != board.Trashed || !reflect.DeepEqual(rows[0].Details, details) || *rows[0].Book != *book {
			w.Fatalf("the trash has %+v", rows)
		}
		w.must(w.b.Restore(w.ctx, rows[0].Ref))
		r := w.find(p.UUID)
		w.same(r, w.py.find(p.UUID))
		w.py.claim(r.Posting, "python")
		w.must(w.py.finish("trash", r.Posting, "python"))
		if rows, err = w.b.TrashList(w.ctx); err != nil || len(rows) != 1 {
			w.Fatalf("the trash has %+v, %v", rows, err)
		}
		w.must(w.b.Purge(w.ctx, rows[0].Ref))
		if rows, err = w.b.TrashList(w.ctx); err != nil || len(rows) != 0 {
			w.Errorf("the trash has %+v, %v", rows, err)
		}
		w.sees(r.Posting, board.Complete, "")
		w.sound()
	},
}

// sound expects nothing inconsistent on the board.
func (w *world) sound() {
	w.Helper()
	problems, err := w.b.Check(w.ctx)
	w.must(err)
	for _, p := range problems {
		w.Errorf("check: %s", p)
	}
}
