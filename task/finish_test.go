package task

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// A large batch is deleted with few commands, and nothing goes with it that is somebody else's: not what is still pending in between, and not what the
// group never delivered.
func TestLargeBatchDeletesItsEntriesAlone(t *testing.T) {
	srv := testenv.Redis(t)
	const n = 100
	for name, c := range map[string]struct {
		skipped int   // oldest entries that the group was never given
		leave   []int // of those after them, which do not end
	}{
		"all":                      {0, nil},
		"the first is pending":     {0, []int{0}},
		"one in between":           {0, []int{40}},
		"the last ones":            {0, []int{98, 99}},
		"oldest were skipped":      {3, nil},
		"skipped, and one pending": {1, []int{70}},
	} {
		stream, heartbeat := srv.Prefix(t)+":s", srv.Prefix(t)+":h"
		srv.Must(t, "SET", heartbeat, "token")
		var ids []string
		for range c.skipped + n {
			id := must(srv.Must(t, "XADD", stream, "*", "data", "x").ToString())
			ids = append(ids, id)
		}
		after := "0"
		if c.skipped > 0 {
			after = ids[c.skipped-1]
		}
		srv.Must(t, "XGROUP", "CREATE", stream, "g", after)
		srv.Must(t, "XREADGROUP", "GROUP", "g", "w", "STREAMS", stream, ">")
		want, ended := slices.Clone(ids[:c.skipped]), []string{}
		for i, id := range ids[c.skipped:] {
			if slices.Contains(c.leave, i) {
				want = append(want, id)
			} else {
				ended = append(ended, id)
			}
		}
		keys := []string{heartbeat, stream, stream + ":d", stream + ":a", stream + ":c", stream + ":l", stream + ":i"}
		args := slices.Concat([]string{"token", "g", "", strconv.Itoa(len(ended))}, ended, []string{"0", "0", "0", "0"})
		for again := range 2 { // a repetition changes nothing
			reply, err := finishScript.Run(t.Context(), srv.Client, keys, args...).ToArray()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := reply[1].AsInt64(); err != nil || got != int64(len(ended)*(1-again)) {
				t.Errorf("%s: %d had not ended before, %v, want %d", name, got, err, len(ended)*(1-again))
			}
			left := must(srv.Must(t, "XRANGE", stream, "-", "+").AsXRange())
			var got []string
			for _, e := range left {
				got = append(got, e.ID)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: the stream has %v, want %v", name, got, want)
			}
		}
	}
}
