package mqtt

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// maxLevels bounds the levels of a topic: mosquitto takes 200 separators and closes the
// connection of who sends more, which would stop everything else on that connection.
const maxLevels = 200

// A MessageError says why a message cannot be published by anyone: repeating does not help.
type MessageError struct {
	Field string // topic, response topic, content type, user property, ...
	Value string // at most 64 bytes of it
	Rule  string // what it breaks
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("mqtt: %s %q: %s", e.Field, e.Value, e.Rule)
}

func messageError(field, value, rule string) *MessageError {
	if len(value) > 64 {
		value = value[:64]
	}
	return &MessageError{field, value, rule}
}

// CheckTopic says whether a message can be published on topic: 1 to 65535 bytes of UTF-8
// without control characters and wildcards, at most 200 separators. The error is a
// *MessageError.
func CheckTopic(topic string) error {
	if rule := topicRule(topic); rule != "" {
		return messageError("topic", topic, rule)
	}
	return nil
}

func topicRule(topic string) string {
	switch {
	case topic == "":
		return "empty"
	case strings.ContainsAny(topic, "+#"):
		return "holds a wildcard (+ or #)"
	case strings.Count(topic, "/") > maxLevels:
		return "more than 200 separators"
	}
	return textRule(topic)
}

// CheckFilter says whether filter can be subscribed to. A shared subscription is
// $share/{name}/{filter}. The error is a *MessageError.
func CheckFilter(filter string) error {
	fail := func(rule string) error { return messageError("filter", filter, rule) }
	if rule := textRule(filter); rule != "" {
		return fail(rule)
	}
	levels := strings.Split(filter, "/")
	if levels[0] == "$share" {
		if len(levels) < 3 || levels[1] == "" || strings.ContainsAny(levels[1], "+#") {
			return fail("want $share/{name}/{filter}")
		}
		levels = levels[2:]
	}
	if len(levels) == 1 && levels[0] == "" {
		return fail("empty")
	}
	if len(levels) > maxLevels+1 {
		return fail("more than 200 separators")
	}
	for i, level := range levels {
		switch {
		case level == "+":
		case level == "#" && i == len(levels)-1:
		case strings.ContainsAny(level, "+#"):
			return fail("a wildcard must be a level of its own, # the last")
		}
	}
	return nil
}

// textRule says why s cannot stand in an MQTT packet, "" when it can. MQTT forbids NUL and
// invalid UTF-8; it lets a receiver close the connection for control characters and
// non-characters (1.5.4), which mosquitto does, so they are refused here.
func textRule(s string) string {
	if len(s) > math.MaxUint16 {
		return "longer than 65535 bytes"
	}
	for i, r := range s {
		switch {
		case r >= 0x20 && r < 0x7f:
		case r == utf8.RuneError:
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return "not UTF-8"
			}
		case forbidden(r):
			return "holds a control character or a non-character"
		}
	}
	return ""
}

func forbidden(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe
}

// clean returns s with everything textRule refuses replaced by U+FFFD, and cut to limit bytes.
func clean(s string, limit int) string {
	if textRule(s) != "" {
		s = strings.Map(func(r rune) rune {
			if forbidden(r) {
				return utf8.RuneError
			}
			return r
		}, strings.ToValidUTF8(s, "\ufffd"))
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// unshared returns the filter a shared subscription is about.
func unshared(filter string) string {
	if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
		if _, f, ok := strings.Cut(rest, "/"); ok {
			return f
		}
	}
	return filter
}

// Matches reports whether topic falls under filter, which must not be shared. A wildcard at
// the start does not match topics that start with $ [MQTT-4.7.2-1].
func Matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (strings.HasPrefix(filter, "+") || strings.HasPrefix(filter, "#")) {
		return false
	}
	for {
		want, filterRest, moreFilter := strings.Cut(filter, "/")
		if want == "#" {
			return true
		}
		have, topicRest, moreTopic := strings.Cut(topic, "/")
		if want != "+" && want != have {
			return false
		}
		if !moreTopic {
			return !moreFilter || filterRest == "#"
		}
		if !moreFilter {
			return false
		}
		filter, topic = filterRest, topicRest
	}
}
