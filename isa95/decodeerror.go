package isa95

import (
	"errors"
	"strings"
	"unicode"

	"github.com/taktworks/takt/internal/jsonscan"
)

// What a DecodeError is, for errors.Is. A caller turns ErrMissing and ErrType into "this member is wrong" and the
// others into "this body is wrong".
var (
	ErrSyntax  = jsonscan.ErrSyntax
	ErrLimit   = jsonscan.ErrLimit
	ErrType    = errors.New("wrong type")
	ErrMissing = errors.New("missing")
	ErrTwice   = jsonscan.ErrTwice
)

// DecodeError is why a body was refused. Pointer and Value are printable text, safe in logs and user properties.
type DecodeError struct {
	Pointer string // JSON pointer (RFC 6901) into the body, with the names as they were sent; "" = the whole body
	Value   string // the refused value as JSON, shortened; "" = there is none
	Rule    string // what it has to be, as a sentence part: "must be an integer", "is required"
	Line    int    // of the body where reading ended, from 1; 0 = not read
	Err     error  // ErrSyntax, ErrLimit, ErrType, ErrMissing or ErrTwice
}

func (e *DecodeError) Error() string {
	text := e.Pointer
	if text == "" {
		text = "body"
	}
	if e.Value != "" {
		text += " " + e.Value
	}
	return text + " " + e.Rule
}

// Unwrap is Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// under puts err below the member or element name.
func under(err error, name string) error {
	e := decodeError(err)
	name = printable(shorten(name))
	e.Pointer = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name) + e.Pointer
	return e
}

// decodeError is err of the scanner, or of the decoder itself.
func decodeError(err error) *DecodeError {
	scan, scanned := errors.AsType[*jsonscan.Error](err)
	own, ok := errors.AsType[*DecodeError](err)
	switch {
	case ok:
		return own
	case !scanned:
		return &DecodeError{Rule: err.Error(), Err: err}
	}
	e := &DecodeError{Value: printable(shorten(scan.Value)), Rule: scan.Rule, Err: scan.Err}
	if scan.Member != "" {
		under(e, scan.Member)
	}
	return e
}

// printable replaces what a log or a broker may stumble over.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
