package mes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// counted runs a Follow until it ends by itself.
func counted(t *testing.T, c *mes.Client, o mes.FollowOptions) mes.Totals {
	t.Helper()
	totals, err := c.Follow(within(t), []isa95.Scope{scope}, o)
	testenv.Must(t, err)
	return totals
}

// count is how many lines begin so.
func count(lines []string, with string) (n int) {
	for _, line := range lines {
		if strings.HasPrefix(line, with) {
			n++
		}
	}
	return n
}

// Of many results that wait, exactly Count are handed over and, with Clear, cleared; none is lost to the next Follow.
func TestFollowEndsAtCount(t *testing.T) {
	for _, clears := range []bool{true, false} {
		t.Run(fmt.Sprintf("clear %t", clears), func(t *testing.T) {
			s := newStage(t)
			s.change(func() {
				for i := range 12 {
					s.end(fmt.Sprintf("JO-%d", i), "1")
				}
			})
			o := s.options(s.memory)
			o.Clear, o.Count = clears, 3
			seen := map[string]bool{}
			for round := range 4 {
				totals := counted(t, s.c, o)
				lines := s.rest()
				cleared := 0
				if clears {
					cleared = 3
				}
				if totals.Results != 3 || totals.Clears != int64(cleared) || totals.Troubles != 0 || count(lines, "result ") != 3 || count(lines, "clear ") != cleared {
					t.Errorf("round %d: %+v, %q", round, totals, lines)
				}
				if got := len(s.commands(isa95.Clear)); got != cleared*(round+1) {
					t.Errorf("round %d: %d orders were cleared", round, got)
				}
				for _, line := range lines {
					if strings.HasPrefix(line, "result ") {
						seen[line] = true
					}
				}
			}
			if len(seen) != 12 {
				t.Errorf("handed over: %v", seen)
			}
		})
	}
}

// A result that was not taken, or could not be remembered, does not count before it is.
func TestFollowCountsWhatIsRemembered(t *testing.T) {
	s := newStage(t)
	s.change(func() { s.end("JO-1", "1"); s.end("JO-2", "2") })
	s.fail["JO-1"], s.fail["JO-2"] = 1, 1
	memory := &forgetful{Memory: s.memory}
	o := s.options(memory)
	o.Count = 1
	if totals := counted(t, s.c, o); totals.Clears != 1 || totals.Troubles != 3 {
		t.Errorf("%+v", totals)
	}
	cleared := s.commands(isa95.Clear)
	lines := s.rest()
	if len(cleared) != 1 || count(lines, "result ") != 2 || count(lines, "result "+cleared[0]+" ") != 2 {
		t.Errorf("cleared %v, told %q", cleared, lines)
	}
}

// forgetful refuses the first result.
type forgetful struct {
	mes.Memory
	refused bool
}

func (m *forgetful) Handed(ctx context.Context, s isa95.Scope, id isa95.JobOrderID, r mes.Receipt) error {
	if !m.refused {
		m.refused = true
		return errors.New("the disk is full")
	}
	return m.Memory.Handed(ctx, s, id, r)
}

func TestFollowCountBelowZero(t *testing.T) {
	s := newStage(t)
	o := s.options(s.memory)
	o.Count = -1
	if _, err := s.c.Follow(within(t), []isa95.Scope{scope}, o); err == nil || !strings.Contains(err.Error(), "FollowOptions.Count -1: must be 0 (no limit) or more") {
		t.Error(err)
	}
}
