// Package recent remembers what was used last.
package recent

import "sync"

// Cache remembers what was used last, within a budget of bytes. It may forget anything at any time: what it forgot is
// read or made again. Its methods may be called at once from any goroutine.
type Cache[K comparable, V any] struct {
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

// New takes a budget in bytes, of which it uses at most half for the values used last, and the rest for those before.
func New[K comparable, V any](budget int) *Cache[K, V] {
	return &Cache[K, V]{budget: budget / 2, young: make(map[K]weighed[V])}
}

// Get returns the value of key, if it is remembered.
func (r *Cache[K, V]) Get(key K) (V, bool) {
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

// Put remembers v, which takes about so many bytes with its key. The texts in key and v must be copies: a piece of a document or of a message keeps all of it in memory.
func (r *Cache[K, V]) Put(key K, v V, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
	r.set(key, weighed[V]{v, bytes})
}

func (r *Cache[K, V]) set(key K, w weighed[V]) {
	if len(r.young) > 0 && r.bytes+w.bytes > r.budget {
		r.young, r.old, r.bytes = make(map[K]weighed[V]), r.young, 0
	}
	r.young[key] = w
	r.bytes += w.bytes
}

// Drop forgets the value of key.
func (r *Cache[K, V]) Drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
}

func (r *Cache[K, V]) remove(key K) {
	if w, ok := r.young[key]; ok {
		delete(r.young, key)
		r.bytes -= w.bytes
	}
	delete(r.old, key)
}
