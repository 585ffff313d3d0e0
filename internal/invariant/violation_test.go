package invariant_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taktworks/takt/internal/invariant"
)

// A check reports what every look found in the same moment: what comes, goes or moves is work in hand. Without suspects it looks once.
func TestStanding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		looks [][]invariant.Violation
		want  []string
		took  time.Duration
	}{
		"nothing":               {[][]invariant.Violation{{}}, nil, 0},
		"gone at the second":    {[][]invariant.Violation{{{Key: "a", Problem: "1"}}, {{Key: "b", Problem: "1"}}}, nil, time.Second},
		"gone at the third":     {[][]invariant.Violation{{{Key: "a", Problem: "1"}}, {{Key: "a", Problem: "1"}}, {}}, nil, 2 * time.Second},
		"another each time":     {[][]invariant.Violation{{{Key: "a", Problem: "1"}}, {{Key: "a", Problem: "2"}}}, nil, time.Second},
		"stands, beside others": {[][]invariant.Violation{{{Key: "a", Problem: "1"}, {Key: "b", Problem: "1"}}, {{Key: "b", Problem: "1"}}, {{Key: "b", Problem: "1"}, {Key: "c", Problem: "1"}}}, []string{"b: 1; "}, 2 * time.Second},
		"grows older": {[][]invariant.Violation{{{Key: "a", Problem: "for 1 s", Moment: "m"}}, {{Key: "a", Problem: "for 2 s", Moment: "m"}}, {{Key: "a", Problem: "for 3 s", Moment: "m"}}},
			[]string{"a: for 3 s; "}, 2 * time.Second},
		"moves under the same text": {[][]invariant.Violation{{{Key: "a", Problem: "lags", Moment: "1"}}, {{Key: "a", Problem: "lags", Moment: "2"}}}, nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin, n := time.Now(), 0
				found, err := invariant.Standing(t.Context(), 3, time.Second, func() ([]invariant.Violation, error) {
					n++
					return slices.Clone(test.looks[n-1]), nil
				})
				var texts []string
				for _, v := range found {
					texts = append(texts, v.String())
				}
				if err != nil || !slices.Equal(texts, test.want) || n != len(test.looks) || time.Since(begin) != test.took {
					t.Errorf("%v, %q after %d looks and %v; want %q after %d and %v", err, texts, n, time.Since(begin), test.want, len(test.looks), test.took)
				}
			})
		})
	}
	broken := errors.New("no answer")
	if found, err := invariant.Standing(t.Context(), 3, 0, func() ([]invariant.Violation, error) { return nil, broken }); !errors.Is(err, broken) || found != nil {
		t.Errorf("%v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	found, err := invariant.Standing(ctx, 3, time.Hour, func() ([]invariant.Violation, error) {
		cancel()
		return []invariant.Violation{{Key: "a"}}, nil
	})
	if !errors.Is(err, context.Canceled) || found != nil {
		t.Errorf("%v, %v", found, err)
	}
}
