package topics_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/topics"
)

func rights(u topics.User) (write, read []string) {
	for _, r := range topics.Prefix("p/t").Rights(u, []string{"mes/#"}) {
		if r.Write {
			write = append(write, r.Filter)
		}
		if r.Read {
			read = append(read, r.Filter)
		}
	}
	return write, read
}

// An MES commands and reads its own stations only, equipment reads the commands of its own station only, and none of them reads answers or the private topics of others.
func TestRightsArePerStation(t *testing.T) {
	for _, test := range []struct {
		user        topics.User
		write, read string
	}{
		{topics.User{Name: "m", Party: topics.MES, Client: "c", Scopes: []string{"a", "b.1"}},
			"p/t/a/commands p/t/b.1/commands p/t/processors/+/a p/t/processors/+/b.1 p/t/private/c/#",
			"mes/responses/c p/t/a/replies/c p/t/b.1/replies/c p/t/a/events p/t/b.1/events p/t/a/state-index p/t/b.1/state-index p/t/a/order/+ p/t/b.1/order/+ p/t/a/result/+ p/t/b.1/result/+ p/t/a/prompts/+ p/t/b.1/prompts/+ p/t/metadata p/t/a/metadata p/t/b.1/metadata p/t/private/c/#"},
		{topics.User{Name: "e", Party: topics.Equipment, Scopes: []string{"a"}},
			"p/t/processors/+/a p/t/responses/# p/t/equipment/a/events", "p/t/a/replies/e p/t/equipment/a/commands"},
		{topics.User{Name: "o", Party: topics.Observer},
			"p/t/private/o/#", "p/t/+/events p/t/+/state-index p/t/+/order/+ p/t/+/result/+ p/t/+/prompts/+ p/t/metadata p/t/+/metadata p/t/private/o/#"},
		{topics.User{Name: "t", Party: topics.Takt}, "p/t/# mes/#", "p/t/#"},
	} {
		write, read := rights(test.user)
		if got := strings.Join(write, " "); got != test.write {
			t.Errorf("%s writes\n%s, want\n%s", test.user.Name, got, test.write)
		}
		if got := strings.Join(read, " "); got != test.read {
			t.Errorf("%s reads\n%s, want\n%s", test.user.Name, got, test.read)
		}
	}
	for _, party := range []topics.Party{topics.MES, topics.Observer, topics.Operator} {
		write, read := rights(topics.User{Name: "x", Party: party, Scopes: []string{"a"}})
		for _, filter := range slices.Concat(write, read) {
			if strings.HasPrefix(filter, "p/t/equipment") || strings.HasPrefix(filter, "p/t/responses") || strings.Contains(filter, "t/#") {
				t.Errorf("%s has a right on %s", party, filter)
			}
		}
	}
}
