package schedule

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// ruleLine is one content line of an iCalendar text (RFC 5545, 3.1): NAME;PARAM=value:value.
type ruleLine struct {
	name, value string
	tzid        string // "" = none
	kind        string // VALUE; "" = not given
}

// field is how errors name a line.
func (l ruleLine) field() string { return "rrule " + l.name }

// lineValues are the properties that make a schedule (3.8.2.4, 3.8.5), and what VALUE may say of them.
var lineValues = map[string][]string{
	"DTSTART": {"DATE-TIME", "DATE"},
	"RDATE":   {"DATE-TIME", "DATE"},
	"EXDATE":  {"DATE-TIME", "DATE"},
	"RRULE":   {"RECUR"},
}

const paramValue = `(?:"[^"\r\n]*"|[^";:,\r\n]*)` // 3.1: what has a colon, a semicolon or a comma is quoted

var (
	folds     = regexp.MustCompile(`\r?\n[ \t]((?i:DTSTART|RRULE|RDATE|EXDATE)[;:])?`)
	lineHead  = regexp.MustCompile(`^([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=` + paramValue + `(?:,` + paramValue + `)*)*):`)
	lineParam = regexp.MustCompile(`;([A-Za-z0-9-]+)=((?:"[^"]*"|[^";])*)`)
)

// unfold joins what a line break and one blank or tab separate (3.1), unless a line of its own follows: a text may be indented, too.
func unfold(text string) string {
	return folds.ReplaceAllStringFunc(text, func(fold string) string {
		if strings.HasSuffix(fold, ":") || strings.HasSuffix(fold, ";") {
			return fold
		}
		return ""
	})
}

// firstWord returns what stands before the first white space.
func firstWord(text string) string {
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i]
	}
	return text
}

// ruleLines reads lines that white space separates; a rule may stand without its RRULE.
func ruleLines(text string) (map[string][]ruleLine, error) {
	lines := map[string][]ruleLine{}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		l, params := ruleLine{name: "RRULE"}, ""
		if head := lineHead.FindStringSubmatch(text); head != nil {
			l.name, params, text = strings.ToUpper(head[1]), head[2], text[len(head[0]):]
		} else if name, _, ok := strings.Cut(firstWord(text), "="); !ok || strings.ContainsAny(name, ";:") {
			return nil, refuse("rrule", firstWord(text), "want a rule such as FREQ=DAILY, or a line NAME;PARAM=value:value (RFC 5545, 3.1) of DTSTART, RRULE, RDATE or EXDATE")
		}
		l.value = firstWord(text)
		text = text[len(l.value):]
		colon := strings.LastIndexByte(l.value, ':') // of a parameter, for no value has one
		switch {
		case params != "" && colon >= 0:
			return nil, refuse(l.field(), params[1:]+":"+l.value[:colon], "a parameter with a colon stands in quotes (RFC 5545, 3.1), and a time zone has none: want a name of the time zone database, such as TZID=Europe/Berlin")
		case l.name == "EXRULE":
			return nil, refuse("rrule", l.name, "is not a line of RFC 5545 any more (A.3): write the dates as EXDATE")
		case lineValues[l.name] == nil:
			return nil, refuse("rrule", l.name, "want a rule such as FREQ=DAILY, or lines of DTSTART, RRULE, RDATE and EXDATE (RFC 5545, 3.8.2.4 and 3.8.5): leave out the other lines")
		}
		if err := l.readParams(params); err != nil {
			return nil, err
		}
		lines[l.name] = append(lines[l.name], l)
	}
	return lines, nil
}

// readParams reads ;NAME=value;NAME="value". Those that begin with X- mean nothing here (3.2).
func (l *ruleLine) readParams(params string) error {
	for _, p := range lineParam.FindAllStringSubmatch(params, -1) {
		name, value := strings.ToUpper(p[1]), strings.Trim(p[2], `"`)
		into := map[string]*string{"TZID": &l.tzid, "VALUE": &l.kind}[name]
		switch {
		case strings.HasPrefix(name, "X-"):
			continue
		case into == nil:
			return refuse(l.field(), p[0][1:], "want the parameters TZID and VALUE, or such as begin with X- (RFC 5545, 3.2 and 3.8)")
		case *into != "":
			return refuse(l.field(), p[0][1:], "%s is given twice (RFC 5545, 3.8)", name)
		case value == "":
			return refuse(l.field()+" "+name, value, "is empty")
		}
		*into = value
	}
	l.kind = strings.ToUpper(l.kind)
	switch {
	case l.tzid != "" && l.name == "RRULE":
		return refuse(l.field(), "TZID="+l.tzid, "a rule has no time zone (RFC 5545, 3.8.5.3): write TZID to DTSTART, or TZ=%s in front of all lines", l.tzid)
	case l.kind == "PERIOD":
		return refuse(l.field(), "VALUE=PERIOD", "a slot has no duration (RFC 5545, 3.3.9): write the beginning of each period as VALUE=DATE-TIME")
	case l.kind != "" && !slices.Contains(lineValues[l.name], l.kind):
		return refuse(l.field(), "VALUE="+l.kind, "want VALUE=%s (RFC 5545, 3.8)", strings.Join(lineValues[l.name], " or VALUE="))
	}
	return nil
}

// zone loads that of TZID; nil: there is none. A slash in front says that the name is one of a register that all know (3.2.19).
func (l ruleLine) zone() (*time.Location, error) {
	if l.tzid == "" {
		return nil, nil
	}
	return loadZone(l.field()+" TZID", strings.TrimPrefix(l.tzid, "/"))
}

// readTime reads one value of the line.
func (l ruleLine) readTime(text string) (timeKind, int64, error) {
	kind, value, err := readTime(l.field(), text)
	switch {
	case err != nil:
		return noTime, 0, err
	case l.kind == "DATE" && kind != localDate:
		return noTime, 0, refuse(l.field(), text, "VALUE=DATE wants a date such as 20260102 (RFC 5545, 3.3.4)")
	case l.kind == "DATE-TIME" && kind == localDate:
		return noTime, 0, refuse(l.field(), text, "VALUE=DATE-TIME wants a time such as 20260102T030405Z (RFC 5545, 3.3.5)")
	case l.tzid != "" && kind == utcTime:
		return noTime, 0, refuse(l.field(), text, "a time in UTC goes without TZID (RFC 5545, 3.2.19): leave out the Z, or TZID=%s", l.tzid)
	case l.tzid != "" && kind == localDate:
		return noTime, 0, refuse(l.field(), text, "a date goes without TZID (RFC 5545, 3.2.19): write TZ=%s in front of all lines", l.tzid)
	}
	return kind, value, nil
}
