// Package rfc3339 reads times as RFC 3339 writes them. time.Parse takes more, with a layout of its own: an hour of one digit, a comma before the fraction, and offsets of a day and
// longer, which no other reader of such times takes.
package rfc3339

import (
	"errors"
	"regexp"
	"strings"
	"time"
)

var (
	shape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

	errTime = errors.New("want an RFC 3339 time with its offset, such as 2026-01-02T03:04:05Z or 2026-01-02T04:04:05.5+01:00")
)

// Parse returns the time of a text, to the nanosecond; further digits are cut. Letters may be small (5.6). The error says what is wanted. A leap second (60) is refused: no clock
// of a process shows one.
func Parse(text string) (time.Time, error) {
	upper := strings.ToUpper(text)
	if !shape.MatchString(upper) {
		return time.Time{}, errTime
	}
	t, err := time.Parse(time.RFC3339Nano, upper)
	if err != nil {
		return time.Time{}, errTime
	}
	return t, nil
}
