package sfc

import "sync"

// recent remembers what was used last: at least max values, at most twice as many. What it forgot is asked of Redis
// again, so it may forget anything at any time.
type recent[K comparable, V any] struct {
	mu         sync.Mutex
	max        int
	young, old map[K]V
}

func newRecent[K comparable, V any](max int) *recent[K, V] {
	return &recent[K, V]{max: max, young: make(map[K]V)}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.young[key]
	if !ok {
		if v, ok = r.old[key]; ok {
			r.set(key, v)
		}
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(key, v)
}

func (r *recent[K, V]) set(key K, v V) {
	if _, known := r.young[key]; !known && len(r.young) >= r.max {
		r.young, r.old = make(map[K]V), r.young
	}
	r.young[key] = v
}

func (r *recent[K, V]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.young, key)
	delete(r.old, key)
}
