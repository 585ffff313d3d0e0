package redisboard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

// modelled is a posting as the model has it.
type modelled struct {
	p     *board.Posting
	owner string // "" = nobody
	end   string // consumed or purged; "" = not yet
	trash bool
	tries int // claims since it was posted or restored
}

// whole is what a board must show, by the plainest of rules.
type whole map[string]*modelled

func (m whole) rows() (names []string) {
	there := slices.DeleteFunc(slices.Collect(maps.Values(m)), func(x *modelled) bool { return x.end != "" || x.trash })
	slices.SortFunc(there, func(a, b *modelled) int {
		return cmp.Or(int(b.p.Priority)-int(a.p.Priority), cmp.Compare(a.p.Sequence, b.p.Sequence))
	})
	for _, x := range there {
		names = append(names, x.p.UUID+" "+x.owner)
	}
	return names
}

// Three boards do what they like, and show and answer what the model says; every posting ends once.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	prefix := server.Prefix(t)
	ctx := t.Context()
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		must := func(err error) {
			r.Helper()
			testenv.Must(r, err)
		}
		namespace := fmt.Sprintf("%s:%d", prefix, round)
		boards := make([]*board.Board, 3)
		for i := range boards {
			b, err := board.Open(ctx, server.URL+"?namespace="+namespace)
			must(err)
			defer b.Close()
			boards[i] = b
		}
		m, claims := whole{}, map[string]*board.Claim{} // by owner
		fence := uint64(0)
		pick := func(r *rapid.T) *board.Board { return rapid.SampledFrom(boards).Draw(r, "board") }
		one := func(r *rapid.T) *modelled {
			if len(m) == 0 {
				r.Skip("nothing is posted")
			}
			return m[rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(r, "posting")]
		}
		claimed := func(x *modelled, c *board.Claim) {
			if c.Fence() <= fence {
				r.Fatalf("fence %d after %d", c.Fence(), fence)
			}
			fence = c.Fence()
			if x.tries++; c.Attempt() != x.tries {
				r.Fatalf("attempt %d, want %d", c.Attempt(), x.tries)
			}
			x.owner, claims[c.Owner()] = c.Owner(), c
		}
		finish := func(name string, do func(*board.Claim) error, then func(*modelled)) func(*rapid.T) {
			return func(r *rapid.T) {
				if len(claims) == 0 {
					r.Skip("nothing is claimed")
				}
				owner := rapid.SampledFrom(slices.Sorted(maps.Keys(claims))).Draw(r, "claim")
				c := claims[owner]
				delete(claims, owner)
				x := m[c.Posting().UUID]
				err := do(c)
				if x.owner != owner { // it was taken away
					if !errors.Is(err, board.ErrClaimLost) {
						r.Fatalf("%s without the claim: %v", name, err)
					}
					return
				}
				must(err)
				x.owner = ""
				then(x)
			}
		}
		end := func(x *modelled, how string) {
			if x.end != "" {
				r.Fatalf("%s is %s, and was %s", x.p.UUID, how, x.end)
			}
			x.end, x.trash = how, false
		}
		r.Repeat(map[string]func(*rapid.T){
			"post": func(r *rapid.T) {
				p, err := pick(r).Post(ctx, board.Draft{Name: "n", Priority: board.Priority(rapid.IntRange(-2, 2).Draw(r, "priority"))})
				must(err)
				m[p.UUID] = &modelled{p: p}
			},
			"post again": func(r *rapid.T) {
				x := one(r)
				if x.end != "" || x.trash {
					r.Skip("would be a new one")
				}
				p, err := pick(r).Post(ctx, board.Draft{Name: "other", UUID: x.p.UUID})
				must(err)
				if p.Name != "n" || p.Sequence != x.p.Sequence {
					r.Fatalf("posted again as %+v", p)
				}
			},
			"claim": func(r *rapid.T) {
				x := one(r)
				c, err := pick(r).Claim(ctx, x.p, "w", board.ClaimOptions{TTL: time.Hour})
				var refused *board.ClaimedError
				switch {
				case x.end != "" || x.trash:
					if !errors.Is(err, board.ErrNotFound) {
						r.Fatalf("claimed what is not there: %v", err)
					}
				case x.owner != "":
					if !errors.As(err, &refused) || refused.Owner != x.owner {
						r.Fatalf("claimed what %s has: %v", x.owner, err)
					}
				default:
					must(err)
					claimed(x, c)
				}
			},
			"claim next": func(r *rapid.T) {
				b, err := board.Open(ctx, server.URL+"?namespace="+namespace) // one that remembers no line
				must(err)
				defer b.Close()
				c, err := b.ClaimNext(ctx, "w", board.ClaimOptions{TTL: time.Hour, NoKeepAlive: true})
				for _, row := range m.rows() {
					var uuid, owner string
					if n, _ := fmt.Sscan(row, &uuid, &owner); n == 2 {
						continue
					}
					must(err)
					if c.Posting().UUID != uuid {
						r.Fatalf("got %s, want %s", c.Posting().UUID, uuid)
					}
					claimed(m[uuid], c)
					must(boards[0].Abandon(ctx, c.Posting(), c.Owner())) // its board closes
					m[uuid].owner = ""
					delete(claims, c.Owner())
					return
				}
				if !errors.Is(err, board.ErrNothing) {
					r.Fatalf("claimed of nothing: %v", err)
				}
			},
			"take away": func(r *rapid.T) { // or expire
				x := one(r)
				if x.owner == "" {
					r.Skip("nobody has it")
				}
				must(pick(r).Abandon(ctx, x.p, x.owner))
				x.owner = ""
			},
			"consume": finish("consume", func(c *board.Claim) error { return c.Consume(ctx) }, func(x *modelled) { end(x, "consumed") }),
			"abandon": finish("abandon", func(c *board.Claim) error { return c.Abandon(ctx) }, func(*modelled) {}),
			"trash":   finish("trash", func(c *board.Claim) error { return c.Trash(ctx) }, func(x *modelled) { x.trash, x.tries = true, 0 }),
			"restore": func(r *rapid.T) {
				x := one(r)
				err := pick(r).Restore(ctx, x.p.Ref)
				if x.trash {
					must(err)
					x.trash = false
				} else if !errors.Is(err, board.ErrNotFound) {
					r.Fatalf("restored what is not in the trash: %v", err)
				}
			},
			"purge": func(r *rapid.T) {
				x := one(r)
				err := pick(r).Purge(ctx, x.p.Ref)
				if x.trash {
					must(err)
					end(x, "purged")
				} else if !errors.Is(err, board.ErrNotFound) {
					r.Fatalf("purged what is not in the trash: %v", err)
				}
			},
			"": func(r *rapid.T) {
				rows, err := pick(r).List(ctx, board.ListOptions{})
				must(err)
				var got []string
				for _, row := range rows {
					if (row.Owner != "") != (row.State == board.Claimed) {
						r.Fatalf("%v is owned by %q", row.State, row.Owner)
					}
					got = append(got, row.UUID+" "+row.Owner)
				}
				if want := m.rows(); !slices.Equal(got, want) {
					r.Fatalf("listed %q, want %q", got, want)
				}
			},
		})
		for _, x := range m {
			state, err := boards[1].State(ctx, x.p)
			must(err)
			want := board.Unclaimed
			switch {
			case x.end != "":
				want = board.Complete
			case x.trash:
				want = board.Trashed
			case x.owner != "":
				want = board.Claimed
			}
			if state != want {
				r.Fatalf("%s is %v, want %v", x.p.UUID, state, want)
			}
		}
		problems, err := boards[2].Check(context.WithoutCancel(ctx))
		must(err)
		if len(problems) > 0 {
			r.Fatalf("check: %q", problems)
		}
	})
}
