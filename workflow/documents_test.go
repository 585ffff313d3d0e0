package workflow

import (
	"strconv"
	"strings"
	"testing"
)

// Documents are known once, and by their text alone; there are not more of them than there may be.
func TestDocuments(t *testing.T) {
	var d documents
	d.keep("one", Info{Name: "first"})
	d.keep("one", Info{Name: "second"})
	if i, ok := d.take("one"); !ok || i.Name != "second" {
		t.Errorf("%+v, %t", i, ok)
	}
	if i, ok := d.take("one"); ok {
		t.Errorf("twice: %+v", i)
	}
	large := strings.Repeat("x", largestDocument+1)
	d.keep(large, Info{})
	if _, ok := d.take(large); ok {
		t.Error("a large one is kept")
	}
	for n := range 3 * mostDocuments {
		d.keep(strconv.Itoa(n), Info{LastSequence: int64(n)})
		if i, ok := d.take(strconv.Itoa(n)); !ok || i.LastSequence != int64(n) {
			t.Fatalf("%d is %+v, %t", n, i, ok)
		}
		d.keep(strconv.Itoa(n), Info{LastSequence: int64(n)})
	}
	if n := len(d.info); n != mostDocuments {
		t.Errorf("%d are kept, want %d", n, mostDocuments)
	}
}
