package isa95

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of a list that is there twice, as in a document that was edited by hand, the last counts, and nothing of the first is left in it.
func TestListThatIsThereTwice(t *testing.T) {
	const first = `{"JobOrderID":"1","WorkMasterID":[{"ID":"a","Description":{"Text":"x"}},{"ID":"b"}],`
	for second, want := range map[string][]WorkMasterRef{
		`[]`:           {},
		`[{"ID":"c"}]`: {{ID: "c"}},
		`null`:         nil,
	} {
		var o JobOrder
		if err := UnmarshalStored([]byte(first+`"WorkMasterID":`+second+`}`), &o); err != nil {
			t.Errorf("%s: %v", second, err)
		}
		if diff := cmp.Diff(want, o.WorkMasterID); diff != "" {
			t.Errorf("%s: %s", second, diff)
		}
	}
}

// A body takes about as much memory as it has bytes, whatever the one before it took: it may be kept for long.
func TestBodiesTakeTheirRoom(t *testing.T) {
	for _, size := range []int{10, 50_000, 20, 300_000, 0, 5_000, 5_100} {
		text, err := Marshal(&JobOrder{JobOrderID: "1", WorkMasterID: []WorkMasterRef{{ID: strings.Repeat("x", size+1)}}})
		if err != nil {
			t.Fatal(err)
		}
		if cap(text) > 2*len(text)+128 {
			t.Errorf("%d bytes take %d", len(text), cap(text))
		}
	}
}
