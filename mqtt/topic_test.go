package mqtt

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCheckTopic(t *testing.T) {
	for _, c := range []struct {
		topic, rule string // part of the rule; "" = fine
	}{
		{"a", ""}, {"takt/m42/commands", ""}, {"/", ""}, {"a//b", ""}, {"$SYS/x", ""}, {"ä/ö", ""}, {"a b", ""},
		{strings.Repeat("/", 200), ""}, {strings.Repeat("a", 65535), ""},
		{"", "empty"},
		{"a/+/b", "wildcard"}, {"a/#", "wildcard"}, {"a+", "wildcard"},
		{"a\x00b", "control"}, {"a\nb", "control"}, {"a\u0085b", "control"}, {"a\uffffb", "non-character"},
		{"a\xffb", "UTF-8"}, {"a\xed\xa0\x80b", "UTF-8"}, // a lone surrogate
		{strings.Repeat("a", 65536), "65535"}, {strings.Repeat("/", 201), "200"},
	} {
		err := CheckTopic(c.topic)
		if c.rule == "" && err != nil {
			t.Errorf("%.20q: %v", c.topic, err)
		}
		var m *MessageError
		if c.rule != "" && (!errors.As(err, &m) || !strings.Contains(m.Rule, c.rule) || len(m.Value) > 64) {
			t.Errorf("%.20q: %v, want %s", c.topic, err, c.rule)
		}
	}
}

func TestCheckFilter(t *testing.T) {
	for _, f := range []string{"a", "#", "+", "a/+/b", "a/#", "+/+/#", "/", "$share/g/a", "$share/g/+/commands", "$share/g//"} {
		if err := CheckFilter(f); err != nil {
			t.Errorf("%q: %v", f, err)
		}
	}
	for _, f := range []string{"", "a#", "#/a", "a+/b", "a/b+", "$share/g", "$share/", "$share//a", "$share/+/a", "$share/g/", "a\x00", "a\xff", strings.Repeat("/", 201)} {
		if err := CheckFilter(f); err == nil {
			t.Errorf("%.20q passed", f)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/b/c", false}, {"a/b/c", "a/b", false}, {"a", "b", false},
		{"+", "a", true}, {"+", "a/b", false}, {"+", "/a", false}, {"+/+", "/a", true}, {"/+", "/a", true},
		{"a/+", "a", false}, {"a/+", "a/", true}, {"a/+/c", "a/b/c", true}, {"a/+/c", "a/b/d", false},
		{"#", "a/b/c", true}, {"#", "a", true}, {"a/#", "a", true}, {"a/#", "a/", true}, {"a/#", "a/b/c", true}, {"a/#", "b", false}, {"a/#", "ab", false},
		{"+/#", "a", true}, {"a/+/#", "a", false}, {"a/+/#", "a/b", true},
		{"#", "$SYS/x", false}, {"+/x", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true}, {"a//b", "a//b", true}, {"a/+/b", "a//b", true},
	} {
		if got := Matches(c.filter, c.topic); got != c.want {
			t.Errorf("Matches(%q, %q) = %t", c.filter, c.topic, got)
		}
	}
	if got := unshared("$share/g/a/+/b"); got != "a/+/b" {
		t.Errorf("unshared: %q", got)
	}
}

// A topic matches itself, and every filter made of it by putting wildcards in.
func TestMatchesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,2}`), 1, 5).Draw(t, "levels")
		topic := strings.Join(levels, "/")
		for i := range levels {
			if rapid.Bool().Draw(t, "wild") {
				levels[i] = "+"
			}
		}
		if n := rapid.IntRange(0, len(levels)).Draw(t, "cut"); n < len(levels) {
			levels = append(levels[:n:n], "#")
		}
		if filter := strings.Join(levels, "/"); !Matches(filter, topic) {
			t.Fatalf("%q does not match %q", filter, topic)
		}
	})
}

func TestClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		got := clean(s, limit)
		if len(got) > limit || !utf8.ValidString(got) || textRule(got) != "" {
			t.Fatalf("clean(%q, %d) = %q", s, limit, got)
		}
		if textRule(s) == "" && len(s) <= limit && got != s {
			t.Fatalf("clean(%q) = %q", s, got)
		}
	})
}
