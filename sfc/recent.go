package sfc

import "sync"

// recent remembers what was used last, within a budget of bytes. It may forget anything at any time: what it forgot is
// read from Redis again.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	budget     int // of young; old has at most as much
	young, old map[K]weighed[V]
	bytes      int // of young
}

// weighed is a value and about the memory that it takes with its key.
type weighed[V any] struct {
	value V
	bytes int
}

// newRecent takes a budget in bytes, of which it uses at most half for the values used last, and the rest for those before.
func newRecent[K comparable, V any](budget int) *recent[K, V] {
	return &recent[K, V]{budget: budget / 2, young: make(map[K]weighed[V])}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.young[key]
	if !ok {
		if w, ok = r.old[key]; ok {
			delete(r.old, key)
			r.set(key, w)
		}
	}
	return w.value, ok
}

// put remembers v. The texts in key and v must be copies: a piece of a document or of a message keeps all of it in memory.
func (r *recent[K, V]) put(key K, v V, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
	r.set(key, weighed[V]{v, bytes})
}

func (r *recent[K, V]) set(key K, w weighed[V]) {
	if len(r.young) > 0 && r.bytes+w.bytes > r.budget {
		r.young, r.old, r.bytes = make(map[K]weighed[V]), r.young, 0
	}
	r.young[key] = w
	r.bytes += w.bytes
}

func (r *recent[K, V]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
}

func (r *recent[K, V]) remove(key K) {
	if w, ok := r.young[key]; ok {
		delete(r.young, key)
		r.bytes -= w.bytes
	}
	delete(r.old, key)
}
