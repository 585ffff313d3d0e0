package workflow

import (
	"cmp"
	"strconv"

	"github.com/redis/rueidis"
)

// warm notes that activities come to queues: it is worth asking them.
func (w *Worker) warm(s *shard, queue string, list []Activity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range list {
		if q := w.queues[queueRef{s.n, activities, cmp.Or(a.Queue, queue)}]; q != nil {
			q.hot.Store(true)
		}
	}
}

// wanted is what a script is to fetch for those who wait, in the words of fetch. for one of them a task of the queue loading is there already; nil = that is not so.
func (w *Worker) wanted(s *shard, loading *queue) []string {
	words := []string{"0"}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == nil || w.run.Err() != nil { // it would be with nobody until this worker is gone
		return words
	}
	n := 0
	for ref, q := range w.queues {
		if ref.shard != s.n || !q.hot.Load() {
			continue
		}
		free := w.freeOf(q)
		if q == loading {
			free--
		}
		if free <= 0 {
			continue
		}
		n++
		words = append(words, ref.kind, ref.name, strconv.Itoa(min(free, mostFetched)))
	}
	words[0] = strconv.Itoa(n)
	return words
}

const mostFetched = 16 // of one queue by one script

func (w *Worker) freeOf(q *queue) int {
	if q.kind == tasks {
		return w.workflows.free(q.name)
	}
	return w.activities.free(q.name)
}

// takeIn offers what a script fetched to its queues. What they do not take is pending for this worker, and found.
func (w *Worker) takeIn(s *shard, token string, list []rueidis.RedisMessage) {
	for _, m := range list {
		part, err := m.ToArray()
		if err != nil || len(part) < 4 {
			w.c.log.Error("workflow: a script's fetched task cannot be read, it is found later", "error", err, "parts", len(part))
			continue
		}
		kind, _ := part[0].ToString()
		name, _ := part[1].ToString()
		id, _ := part[2].ToString()
		fields, _ := part[3].AsStrSlice()
		var given any
		if kind == tasks && len(part) > 4 {
			words, _ := part[4].AsStrSlice()
			given = words
		}
		w.mu.Lock()
		q := w.queues[queueRef{s.n, kind, name}]
		w.mu.Unlock()
		all := make(map[string]string, len(fields)/2)
		for i := 0; i+1 < len(fields); i += 2 {
			all[fields[i]] = fields[i+1]
		}
		if q != nil {
			q.group.Offer(token, s.keys.Queue(kind, name), id, all, given)
		}
	}
}
