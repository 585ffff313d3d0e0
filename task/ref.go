package task

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ref is where a task was put: enough to find it while it waits, without an index.
type Ref struct {
	ID    string    `json:"id"`
	Queue Queue     `json:"queue"`
	Entry string    `json:"entry,omitempty"` // id in the queue's stream; "" = it was put in the delayed set
	Due   time.Time `json:"due,omitzero"`    // of a delayed task
}

// String is QUEUE/ENTRY/ID, or QUEUE/@DUE/ID of a delayed task, as the command line takes it; the id alone if neither says where the task is, as of one that is parked.
func (r Ref) String() string {
	switch {
	case r.Queue == "" || r.Entry == "" && r.Due.IsZero():
		return r.ID
	case r.Entry == "":
		return fmt.Sprintf("%s/@%d/%s", r.Queue, r.Due.UnixMilli(), r.ID)
	}
	return fmt.Sprintf("%s/%s/%s", r.Queue, r.Entry, r.ID)
}

// ParseRef reads what String wrote. Text that does not begin with a queue and a slash is an id whose place is not known; ids may have slashes.
func ParseRef(text string) (Ref, error) {
	if !begunByQueue(text) {
		return Ref{ID: text}, checkName("id", text)
	}
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 {
		return Ref{}, fmt.Errorf("task: task %q: with its queue it is QUEUE/ENTRY/ID, or QUEUE/@DUE/ID if it is delayed: copy it from takt task list, or write the id alone, as in %q", text, parts[1])
	}
	r := Ref{ID: parts[2], Queue: Queue(parts[0])}
	if due, ok := strings.CutPrefix(parts[1], "@"); ok {
		ms, err := strconv.ParseInt(due, 10, 64)
		if err != nil {
			return Ref{}, fmt.Errorf("task: %q: the due time %q is not in milliseconds", text, due)
		}
		r.Due = time.UnixMilli(ms)
	} else {
		r.Entry = parts[1]
		if err := checkEntry(r.Entry); err != nil {
			return Ref{}, fmt.Errorf("task: %q: %w", text, err)
		}
	}
	return r, errors.Join(r.Queue.validate(), checkName("id", r.ID))
}

// begunByQueue says whether text begins as a Ref with a place does, as no id of a caller does.
func begunByQueue(text string) bool {
	queue, _, slash := strings.Cut(text, "/")
	p, _, colon := strings.Cut(queue, ":")
	return slash && colon && slices.Contains(Priorities(), Priority(p))
}

// checkEntry says whether id can be one of a stream.
func checkEntry(id string) error {
	ms, number, _ := strings.Cut(id, "-")
	for _, digits := range []string{ms, number} {
		if _, err := strconv.ParseUint(digits, 10, 64); err != nil {
			return fmt.Errorf("the entry %q: want MILLISECONDS-NUMBER, as in 1735689600000-0", id)
		}
	}
	return nil
}
