package mes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/isa95"
)

// TestPlan: what each kind of entry asks for.
func TestPlan(t *testing.T) {
	over := isa95.State{Top: isa95.Ended, Sub: isa95.Completed}
	running := isa95.State{Top: isa95.Running}
	entry := func(state isa95.State, hasResult bool) []isa95.StateIndexEntry {
		return []isa95.StateIndexEntry{{JobOrderID: "JO-1", State: state.Elements(), HasResult: hasResult}}
	}
	for name, row := range map[string]struct {
		jobs    []isa95.StateIndexEntry
		seq     int64 // known is 10
		handed  bool
		cleared int64 // number of indexes at the time of Clear; the index is number 5; 0 = not cleared
		looked  bool
		resync  bool
		want    string
	}{
		"new result":                         {jobs: entry(over, true), seq: 11, want: "fetch JO-1"},
		"running":                            {jobs: entry(running, false), seq: 11, want: ""},
		"over, result not yet there":         {jobs: entry(over, false), seq: 11, want: ""},
		"handed, not cleared yet":            {jobs: entry(over, true), seq: 11, handed: true, want: "clear JO-1"},
		"handed, topic missing for a while":  {jobs: entry(over, false), seq: 11, handed: true, want: ""},
		"handed, in a resync":                {jobs: entry(over, true), seq: 13, handed: true, resync: true, want: "fetch JO-1"},
		"handed, looked at in this resync":   {jobs: entry(over, true), seq: 13, handed: true, resync: true, looked: true, want: "clear JO-1"},
		"cleared, index from before":         {jobs: entry(over, true), seq: 11, handed: true, cleared: 4, want: ""},
		"cleared, still there":               {jobs: entry(over, true), seq: 11, handed: true, cleared: 3, want: "fetch JO-1"},
		"handed and gone":                    {seq: 11, handed: true, want: "gone JO-1"},
		"handed and gone, in an older index": {seq: 9, handed: true, resync: true, want: ""},
		"handed, id used again":              {jobs: entry(running, false), seq: 11, handed: true, want: "gone JO-1"},
		"handed, running in an older index":  {jobs: entry(running, false), seq: 9, handed: true, resync: true, want: ""},
		"state unknown":                      {jobs: []isa95.StateIndexEntry{{JobOrderID: "JO-1", State: []isa95.StateElement{{StateText: isa95.LocalizedText{Text: "Odd"}}}, HasResult: true}}, seq: 11, want: "fetch JO-1"},
		"listed twice":                       {jobs: append(entry(over, true), entry(over, true)...), seq: 11, want: "fetch JO-1"},
		"name that no topic can have":        {jobs: []isa95.StateIndexEntry{{JobOrderID: "a/b", State: over.Elements(), HasResult: true}}, seq: 11, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScopeFollow(nil, "cell-07")
			s.known, s.highest = Known{Seq: 10}.clone(), 10
			if row.handed {
				s.known.Handed["JO-1"] = Receipt{}
			}
			if row.cleared > 0 {
				s.cleared["JO-1"] = row.cleared
			}
			s.looked["JO-1"] = row.looked
			p := s.plan(isa95.StateIndex{Seq: row.seq, Jobs: row.jobs}, 5, row.resync)
			var got []string
			for _, ids := range []struct {
				what string
				ids  []isa95.JobOrderID
			}{{"fetch", p.fetch}, {"clear", p.clear}, {"gone", p.gone}} {
				for _, id := range ids.ids {
					got = append(got, ids.what+" "+string(id))
				}
			}
			if diff := cmp.Diff(row.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
