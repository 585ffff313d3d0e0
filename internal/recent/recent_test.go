package recent

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A cache never forgets what was used last as long as it takes at most half of the budget, and never holds more than the
// budget, but for a value that alone is larger.
func TestRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := 2 * rapid.IntRange(1, 6).Draw(t, "half")
		r := New[int, int](budget)
		type used struct {
			key, bytes int
			dropped    bool
		}
		var last []used // in the order of use, the youngest last; a key that was not dropped once
		type entry struct{ value, bytes int }
		model := map[int]entry{}
		use := func(key int) {
			last = slices.DeleteFunc(last, func(u used) bool { return u.key == key && !u.dropped })
			last = append(last, used{key: key, bytes: model[key].bytes})
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 8).Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				r.Drop(key)
				delete(model, key)
				for i := range last {
					last[i].dropped = last[i].dropped || last[i].key == key
				}
				if _, ok := r.Get(key); ok {
					t.Fatalf("%d is there after drop", key)
				}
			case 1, 2:
				if got, ok := r.Get(key); ok {
					if want, known := model[key]; !known || got != want.value {
						t.Fatalf("%d is %d, want %d (%v)", key, got, want.value, known)
					}
					use(key)
				}
			default:
				model[key] = entry{i, 1 + key%8}
				r.Put(key, i, model[key].bytes)
				use(key)
			}
			newer := 0
			for _, u := range slices.Backward(last) {
				if newer += u.bytes; newer > budget/2 {
					break
				}
				_, young := r.young[u.key]
				if _, old := r.old[u.key]; !young && !old && !u.dropped {
					t.Fatalf("%d is forgotten, and all that was used since then takes %d of %d", u.key, newer, budget)
				}
			}
			for _, held := range []map[int]weighed[int]{r.young, r.old} {
				bytes := 0
				for _, w := range held {
					bytes += w.bytes
				}
				if bytes > budget/2 && len(held) > 1 {
					t.Fatalf("%d bytes are held in one half of %d", bytes, budget)
				}
			}
		}
	})
}
