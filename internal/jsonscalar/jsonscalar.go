// Package jsonscalar reads plain scalars of YAML by the rules of JSON: numbers, true, false and null are what JSON writes so,
// every other scalar is text.
package jsonscalar

import "regexp"

var (
	number      = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	whole       = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	leadingZero = regexp.MustCompile(`^[+-]?0[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$`)
)

// IsNumber tells whether text is a number of JSON.
func IsNumber(text string) bool { return number.MatchString(text) }

// IsWhole tells whether text is a number of JSON that has no fraction and no exponent.
func IsWhole(text string) bool { return whole.MatchString(text) }

// HasLeadingZero tells whether text is a number with zeros before it, such as 014, which one reader of YAML takes for 14, another
// for 12 and a third for text.
func HasLeadingZero(text string) bool { return leadingZero.MatchString(text) }
