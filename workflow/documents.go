package workflow

import "sync"

// documents are those that this process wrote last, of executions that go on, as they are stored: its next task of an execution begins with what it has decoded already.
type documents struct {
	mu   sync.Mutex
	info map[string]Info
}

// Of one worker: some 8 MiB at most.
const (
	mostDocuments   = 1024
	largestDocument = 4096 // bytes; one with large metadata is decoded anew
)

// keep remembers a document, in the place of any other one if there are too many.
func (d *documents) keep(text string, i Info) {
	if len(text) > largestDocument {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.info == nil {
		d.info = make(map[string]Info)
	}
	for other := range d.info {
		if len(d.info) < mostDocuments {
			break
		}
		delete(d.info, other)
	}
	d.info[text] = i
}

// take is what keep remembered, once: it is the caller's.
func (d *documents) take(text string) (Info, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.info[text]
	delete(d.info, text)
	return i, ok
}
