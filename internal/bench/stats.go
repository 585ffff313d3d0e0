package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Median is the middle of the values, of an even number the mean of the two in the middle; of none NaN.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	middle := len(s) / 2
	if len(s)%2 == 1 {
		return s[middle]
	}
	return (s[middle-1] + s[middle]) / 2
}

// Quantile is the smallest value that at least the part q of all values does not exceed (nearest rank); of none zero.
func Quantile[T cmp.Ordered](values []T, q float64) (found T) {
	if len(values) == 0 {
		return found
	}
	s := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(s))))
	return s[max(rank, 1)-1]
}

// Advantage says how many times better ours is than theirs; NaN if one is not known or zero.
func Advantage(ours, theirs float64, lowerIsBetter bool) float64 {
	if lowerIsBetter {
		ours, theirs = theirs, ours
	}
	if !(theirs > 0) || !(ours > 0) {
		return math.NaN()
	}
	return ours / theirs
}

// Milliseconds is d in milliseconds.
func Milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// Number is v with at least three digits and no false ones; "-" if it is not known.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 10000: // no more than three digits are worth anything
		return Thousands(math.Round(v/100) * 100)
	case a >= 1000:
		return Thousands(math.Round(v/10) * 10)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Thousands is a whole number with its groups of digits apart.
func Thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
