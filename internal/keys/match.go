package keys

import (
	"regexp"
	"strings"
	"sync"
)

// Match finds the row of All that a key belongs to, false if there is none. rest is the key below the prefix, without the
// colon between them. A name {x} may be any text but "". Where two patterns fit, the one that says more before its first name wins, of equals the first,
// so joborder:list:m42 is a list and never the job order "list:m42", and joborder:list: is nothing at all.
// {stream}:dead fits the streams that have dead letters only.
func Match(rest string) (Pattern, bool) {
	best := -1
	all := matchers()
	for i, m := range all {
		if !m.owns(rest) {
			continue
		}
		if best < 0 || len(m.before) > len(all[best].before) || m.before == all[best].before && !all[best].whole.MatchString(rest) {
			best = i
		}
	}
	if best < 0 || !all[best].whole.MatchString(rest) {
		return Pattern{}, false
	}
	return all[best].row, true
}

// matcher is one row of All, ready to be compared.
type matcher struct {
	row    Pattern
	before string         // the pattern as far as its first name
	whole  *regexp.Regexp // the pattern, from end to end
}

// owns says whether no less telling pattern may have the key: it begins as this one does, or is this one if that has no name.
func (m *matcher) owns(rest string) bool {
	if m.before == m.row.Pattern || m.before == "" {
		return m.whole.MatchString(rest)
	}
	return strings.HasPrefix(rest, m.before)
}

var matchers = sync.OnceValue(func() []matcher {
	rows := All()
	all := make([]matcher, len(rows))
	for i, row := range rows {
		before, _, _ := strings.Cut(row.Pattern, "{")
		all[i] = matcher{row: row, before: before, whole: regexp.MustCompile(`(?s)^` + expression(row.Pattern) + `$`)}
	}
	return all
})

// expression is a pattern as a regular expression.
func expression(pattern string) string {
	var b strings.Builder
	for {
		text, rest, named := strings.Cut(pattern, "{")
		b.WriteString(regexp.QuoteMeta(text))
		if !named {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		if name == "stream" {
			b.WriteString("(?:" + strings.Join(worked(), "|") + ")")
		} else {
			b.WriteString(".+") // with (?s): line ends too
		}
		pattern = after
	}
}

// worked are the streams below the prefix whose entries are handled one by one, and may end as dead letters.
func worked() []string {
	k := New("")
	streams := []string{k.SfcWork(), k.SfcOutbox(), k.EventReceiver()}
	for i, key := range streams {
		streams[i] = regexp.QuoteMeta(strings.TrimPrefix(key, ":"))
	}
	return streams
}
