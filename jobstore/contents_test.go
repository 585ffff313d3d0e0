package jobstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// What Compare says of a piece is what its delivery does then, and after the delivery of all pieces nothing differs but what no piece names.
func TestCompareIsDelivery(t *testing.T) {
	s := newShop(t)
	master := func(scope isa95.Scope, text string) jobstore.Configuration {
		return jobstore.Configuration{Kind: isa95.ConfigWorkMaster, Scope: scope, ID: "WM-1", WorkMaster: workMaster(text)}
	}
	resource := func(scope isa95.Scope, kind isa95.ConfigKind, id string) jobstore.Configuration {
		return jobstore.Configuration{Kind: kind, Scope: scope, ID: id}
	}
	limit := func(scope isa95.Scope, n int64) jobstore.Configuration {
		return jobstore.Configuration{Kind: isa95.ConfigJobAcceptance, Scope: scope, Limit: n}
	}
	deliver := func(pieces []jobstore.Configuration) {
		t.Helper()
		for _, c := range pieces {
			if err := s.configure(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	compare := func(pieces []jobstore.Configuration) (all []string) {
		t.Helper()
		found, err := s.Compare(t.Context(), pieces)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %.4s>%.4s", f.Scope, f.Kind, f.ID, f.Change, f.Before, f.After)))
			if f.Kind == isa95.ConfigWorkMaster && f.Change != jobstore.DeliveryExtra {
				told, err := s.Delivery(f.Configuration, s.load(jobstore.Query{Scope: f.Scope, Holders: "WM-1"}))
				if err != nil || told != f.Delivery {
					t.Errorf("%+v, its delivery says %+v, %v", f.Delivery, told, err)
				}
			}
		}
		return all
	}
	one, two := jobstore.Hash(workMaster("one").Data)[:4], jobstore.Hash(workMaster("two").Data)[:4]
	deliver([]jobstore.Configuration{
		limit("a", 5), resource("a", isa95.ConfigEquipment, "press"), resource("a", isa95.ConfigEquipment, "old"), master("a", "one"), master("b", "one"), limit("b", 7), master("z", "one"),
	})
	pieces := []jobstore.Configuration{
		limit("a", 6), resource("a", isa95.ConfigEquipment, "press"), resource("a", isa95.ConfigPersonnel, "press"), master("a", "two"), master("b", "one"), master("c", "one"), limit("c", 0),
	}
	want := []string{
		"a jobacceptance  changed 5>6", "a equipment press unchanged >", "a personnel press new >", "a workmaster WM-1 changed " + one + ">" + two,
		"b workmaster WM-1 unchanged " + one + ">" + one, "c workmaster WM-1 new >" + one, "c jobacceptance  new >0",
		"a equipment old extra >", "b jobacceptance  extra 7>",
	}
	before := s.dumps()
	if diff := cmp.Diff(want, compare(pieces)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, s.dumps()); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
	deliver(pieces)
	for i, line := range compare(pieces) {
		if change := " unchanged "; i < len(pieces) && !strings.Contains(line, change) || i >= len(pieces) && line != want[i] {
			t.Errorf("after the delivery: %s", line)
		}
	}
}

// A thousand stations cost few commands, and few round trips: 3 to list stations, 1 to compare, 4 to list work masters.
func TestManyStationsCostLittle(t *testing.T) {
	srv := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, srv.URL)
	s := openShop(t, srv, jobstore.Options{URL: proxy.URL})
	s.deliver("s0", "one")
	pointer, err := s.do("HGET", s.keys.WorkMasterDelivered("WM-1"), "s0").ToString()
	if err != nil {
		t.Fatal(err)
	}
	stations := 0
	grow := func(to int) {
		for ; stations < to; stations++ {
			scope := fmt.Sprintf("s%d", stations)
			s.do("SADD", s.keys.ConfiguredScopes(), scope)
			s.do("SADD", s.keys.WorkMasterList(scope), "WM-1")
			s.do("SADD", s.keys.ResourceList("equipment", scope), "press-1")
			s.do("HSET", s.keys.WorkMasterDelivered("WM-1"), scope, pointer)
		}
	}
	var pieces []jobstore.Configuration
	for _, row := range []struct {
		name         string
		read         func() (int, error)
		trips, limit int // round trips of few stations, commands of a thousand
	}{
		{"stations", func() (int, error) {
			found, err := s.Stations(t.Context())
			if err != nil {
				return 0, err
			}
			var scopes []isa95.Scope
			for scope := range found {
				scopes = append(scopes, scope)
			}
			contents, err := s.Contents(t.Context(), scopes, isa95.ConfigWorkMaster)
			return len(contents), err
		}, 3, 3100},
		{"compare", func() (int, error) {
			pieces = nil
			for i := range stations {
				pieces = append(pieces, jobstore.Configuration{Kind: isa95.ConfigEquipment, Scope: isa95.Scope(fmt.Sprintf("s%d", i)), ID: "press-1"})
			}
			found, err := s.Compare(t.Context(), pieces)
			return len(found) / 2, err // each has the work master, too
		}, 1, 7100},
		{"work masters", func() (int, error) {
			ids, err := s.WorkMasterIDs(t.Context())
			if err != nil {
				return 0, err
			}
			delivered, err := s.Delivered(t.Context(), "", ids...)
			found := jobstore.UsedRecipes(delivered, nil)
			if len(found) != 1 {
				return 0, err
			}
			return len(found[0].Scopes), errors.Join(err, s.ReadRecipes(t.Context(), found...))
		}, 4, 30},
	} {
		stations = 0
		s.do("DEL", s.keys.ConfiguredScopes(), s.keys.WorkMasterDelivered("WM-1"))
		grow(10)
		proxy.Reset()
		if n, err := row.read(); n != 10 || err != nil {
			t.Errorf("%s: %d, %v", row.name, n, err)
		}
		if got := proxy.Trips(); got != row.trips {
			t.Errorf("%s: %d round trips, want %d", row.name, got, row.trips)
		}
		grow(1000)
		before := s.commands()
		if n, err := row.read(); n != 1000 || err != nil {
			t.Errorf("%s: %d, %v", row.name, n, err)
		}
		if got := s.commands() - before; got > row.limit {
			t.Errorf("%s: %d commands, want at most %d", row.name, got, row.limit)
		}
	}
}

// commands is how many commands the server has carried out.
func (s *shop) commands() (n int) {
	s.t.Helper()
	text, err := s.do("INFO", "stats").ToString()
	_, after, found := strings.Cut(text, "total_commands_processed:")
	if _, scan := fmt.Sscan(after, &n); err != nil || !found || scan != nil {
		s.t.Fatal(text, err)
	}
	return n
}

// What cannot be read is named and left out; the rest is there.
func TestWorkMastersThatCannotBeRead(t *testing.T) {
	s := newShop(t)
	s.deliver("a", "one")
	s.deliver("b", "two")
	s.do("DEL", s.keys.WorkMasterContent(strings.Fields(must(s.do("HGET", s.keys.WorkMasterDelivered("WM-1"), "a").ToString()))[1]))
	s.do("HSET", s.keys.WorkMasterDelivered("WM-1"), "c", "nothing")
	delivered, err := s.Delivered(t.Context(), "", "WM-1")
	found := jobstore.UsedRecipes(delivered, nil)
	err = errors.Join(err, s.ReadRecipes(t.Context(), found...))
	if _, ok := errors.AsType[*jobstore.DocumentError](err); !ok || !strings.Contains(err.Error(), `is missing, though it is what scope "a" runs`) || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("err = %v", err)
	}
	if len(found) != 2 || !slices.Equal(found[0].Scopes, []isa95.Scope{"b"}) || !found[0].Read || !found[0].Foreign || found[1].Read {
		t.Errorf("found %+v", found)
	}
}

func must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}
