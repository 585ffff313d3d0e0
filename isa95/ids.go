package isa95

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identifiers become parts of keys and topics, so each is checked where it enters, by its Parse function, and nowhere
// else. A conversion such as JobOrderID("JO-7") is for constants.
type (
	JobOrderID    string // unique within a shard
	Scope         string // a station: the CloudEvent subject up to its first "/"
	JobResponseID string
	WorkMasterID  string
)

// MaxName is the longest name, in bytes of UTF-8.
const MaxName = 128

// NameError is a name that must not become part of a key or topic.
type NameError struct {
	Kind  string // "JobOrderID", "Scope", "JobResponseID", "WorkMasterID"
	Value string // what was refused, shortened when very long
	Rule  string // what a name has to be, as a sentence part: "must not ..."
}

// Error quotes the value, so that no control character reaches a log or a topic.
func (e *NameError) Error() string {
	return fmt.Sprintf("%s %q %s", e.Kind, e.Value, e.Rule)
}

// ParseJobOrderID checks a job order id. The error is a *NameError, the id then "".
func ParseJobOrderID(s string) (JobOrderID, error) {
	return checkName[JobOrderID]("JobOrderID", s)
}

// ParseWorkMasterID checks a work master id. The error is a *NameError, the id then "".
func ParseWorkMasterID(s string) (WorkMasterID, error) {
	return checkName[WorkMasterID]("WorkMasterID", s)
}

// ParseScope checks a scope. Names that stand where a scope does in topics of Takt are refused besides: equipment, processors, responses, replies and private. One that enters for the first time
// is held to CheckNewScope, too. The error is a *NameError, the scope then "".
func ParseScope(s string) (Scope, error) {
	switch s {
	case "equipment", "processors", "responses", "replies", "private":
		return "", &NameError{"Scope", s, "must not be a topic level of Takt's own (equipment, processors, responses, replies, private): give the station another name"}
	}
	return checkName[Scope]("Scope", s)
}

// CheckNewScope is CheckNewName for a scope.
func CheckNewScope(s Scope) error { return CheckNewName("Scope", string(s)) }

// CheckNewName holds the rules for a name that enters for the first time, besides those of its Parse function: people must
// be able to tell it from every other. So it has no characters that are not seen (of the Unicode categories Cf, Zl and Zp:
// U+200B, U+202E, U+2028, U+FEFF and the like) and no blanks at its ends. kind is for the message. The error is a *NameError.
func CheckNewName(kind, s string) error {
	for _, r := range s {
		if unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return &NameError{Kind: kind, Value: shorten(s), Rule: fmt.Sprintf("must not contain characters that cannot be seen (it has U+%04X)", r)}
		}
	}
	if strings.TrimSpace(s) != s {
		return &NameError{Kind: kind, Value: shorten(s), Rule: "must not begin or end with a blank"}
	}
	return nil
}

// checkName holds the rules for names. A name that passes can stand in any key and in
// any MQTT topic; a broker closes the connection on control characters and non-characters, so they are refused too.
func checkName[Name ~string](kind, s string) (Name, error) {
	refuse := func(rule string) (Name, error) {
		return "", &NameError{Kind: kind, Value: shorten(s), Rule: rule}
	}
	switch {
	case s == "":
		return refuse("must not be empty")
	case len(s) > MaxName:
		return refuse(fmt.Sprintf("must not be longer than %d bytes (it has %d)", MaxName, len(s)))
	case !utf8.ValidString(s):
		return refuse("must be valid UTF-8")
	case strings.ContainsAny(s, "/+#"):
		return refuse("must not contain / + # (it becomes a topic level)")
	case s == "_global" || s == "byorder":
		return refuse("must not be _global or byorder (they name keys of their own)")
	}
	for _, prefix := range [...]string{"list:", "changes:", "bystate:"} {
		if strings.HasPrefix(s, prefix) {
			return refuse("must not begin with " + prefix + " (it would name another key)")
		}
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return refuse("must not contain control characters")
		}
		if r >= 0xFDD0 && r <= 0xFDEF || r&0xFFFE == 0xFFFE {
			return refuse("must not contain Unicode non-characters")
		}
	}
	return Name(s), nil
}

// shorten cuts long values for error texts.
func shorten(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
