package station

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// maxSpan bounds every duration of a file.
const maxSpan = 24 * time.Hour

// Span is a duration, or a range of them from which one is drawn evenly.
type Span struct{ Min, Max time.Duration }

// pick draws a duration.
func (s Span) pick(dice *rand.Rand) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(dice.Int64N(int64(s.Max-s.Min)+1))
}

// span reads "200ms" or "150ms..300ms"; absent is the default.
func (f field) span(byDefault Span) Span {
	if f.absent() {
		return byDefault
	}
	low, high, isRange := strings.Cut(f.text(), "..")
	if !isRange {
		high = low
	}
	shortest, err1 := time.ParseDuration(strings.TrimSpace(low))
	longest, err2 := time.ParseDuration(strings.TrimSpace(high))
	if err1 != nil || err2 != nil || shortest < 0 || longest < shortest || longest > maxSpan {
		f.fault("must be a duration from 0s to 24h, such as 200ms, or a range, such as 150ms..300ms")
		return byDefault
	}
	return Span{shortest, longest}
}

// attempts is which attempts a case is for: from and to, both included; to 0 = no end.
type attempts struct{ from, to int }

func (a attempts) contain(n int) bool { return n >= a.from && (a.to == 0 || n <= a.to) }

// attempts reads "2", "1..2" or "3.."; absent is every attempt.
func (f field) attempts() attempts {
	every := attempts{from: 0}
	if f.absent() {
		return every
	}
	low, high, isRange := strings.Cut(f.text(), "..")
	from, err := strconv.Atoi(strings.TrimSpace(low))
	to := from
	if isRange && strings.TrimSpace(high) == "" {
		to = 0
	} else if isRange && err == nil {
		to, err = strconv.Atoi(strings.TrimSpace(high))
	}
	if err != nil || from < 1 || to != 0 && to < from {
		f.fault("must be an attempt from 1, such as 1, or a range, such as 1..2 or 3..")
		return every
	}
	return attempts{from, to}
}
