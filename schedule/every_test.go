package schedule

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The next slot of a 300 s interval lies in (now, now+301s]. It lies on the grid of the anchor, so it does not drift.
func TestEveryA13(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := drawTime(t, "now").Add(time.Duration(rapid.IntRange(0, 999_999_999).Draw(t, "ns")))
		anchor := drawTime(t, "anchor")
		slot, ok := Every(300*time.Second, Anchor(anchor)).Next(now)
		switch {
		case !ok:
			t.Fatal("exhausted")
		case now.Before(anchor):
			if !slot.Equal(anchor) {
				t.Fatalf("before the anchor %v: %v", anchor, slot)
			}
		case !slot.After(now) || slot.After(now.Add(300*time.Second)):
			t.Fatalf("next of %v is %v", now, slot)
		case slot.Sub(anchor)%(300*time.Second) != 0:
			t.Fatalf("%v is off the grid of %v", slot, anchor)
		}
	})
}

func TestEvery(t *testing.T) {
	checkSlots(t, []slotRow{
		{"after 2026-01-02T03:04:05Z", "", "2026-01-02T03:04:05Z", "every 5m", "2026-01-02 03:05"},
		{"after 2026-01-02T03:05:00Z", "", "2026-01-02T03:05:00Z", "every 5m", "2026-01-02 03:10"},
		{"after 1969-12-31T23:59:59Z", "", "1969-12-31T23:59:59Z", "every 5m", "1970-01-01 00:00"},
		{"after 2020-01-01T00:00:00Z", "", "2020-01-01T00:00:00Z", "every 5m from 2026-01-02T03:04:05Z", "2026-01-02 03:04:05"},
		{"after 2026-01-02T03:04:05Z", "", "2026-01-02T03:04:05Z", "every 5m from 2026-01-02T03:04:05Z", "2026-01-02 03:09:05"},
		{"after 2026-01-02T02:09:05.4Z", "", "2026-01-02T02:09:05.4Z", "every 5m from 2026-01-02T03:04:05.5+01:00", "2026-01-02 02:09:05.5"},
		{"after 2026-01-02T02:09:05.6Z", "", "2026-01-02T02:09:05.6Z", "every 5m from 2026-01-02T03:04:05.5+01:00", "2026-01-02 02:14:05.5"},
		{"after 2026-01-02T03:04:05.0001Z", "", "2026-01-02T03:04:05.0001Z", "every 1.5ms from 2026-01-02T03:04:05Z", "2026-01-02 03:04:05.0015"},
		{"after 2028-02-28T13:00:00Z", "", "2028-02-28T13:00:00Z", "every 24h from 2026-01-31T12:00:00Z", "2028-02-29 12:00"},
		{"after 2900-12-31T23:45:00Z", "", "2900-12-31T23:45:00Z", "every 1h from 1900-01-01T00:30:00Z", "2901-01-01 00:30"},
	})
}

// The remainder in 128 bits is that of arithmetic without bounds.
func TestEveryPast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := every{
			d:      time.Duration(rapid.Int64Range(int64(MinEvery), 1<<63-1).Draw(t, "d")),
			anchor: time.Unix(rapid.Int64Range(firstAnchor.Unix(), 0).Draw(t, "anchor"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")),
		}
		now := time.Unix(rapid.Int64Range(1, lastAnchor.Unix()).Draw(t, "now"), rapid.Int64Range(0, 999_999_999).Draw(t, "now ns"))
		total := new(big.Int).Mul(big.NewInt(now.Unix()-e.anchor.Unix()), big.NewInt(1e9))
		total.Add(total, big.NewInt(int64(now.Nanosecond()-e.anchor.Nanosecond())))
		if want := total.Mod(total, big.NewInt(int64(e.d))).Int64(); int64(e.past(now)) != want {
			t.Fatalf("past %v, want %d", e.past(now), want)
		}
	})
}

func TestEveryPanicsBelowItsFloor(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, MinEvery - 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("every %v was made", d)
				}
			}()
			Every(d)
		}()
	}
}

func TestEveryEnds(t *testing.T) {
	if slot, ok := Every(time.Hour).Next(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
		t.Errorf("a slot in %v", slot)
	}
}
