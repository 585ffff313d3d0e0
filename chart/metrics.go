package chart

import (
	"sort"
	"strings"
	"unicode"
)

// metrics are the measures of one medium: pixels of a picture, or cells of a terminal.
type metrics struct {
	width func(style textStyle, s string) int
	line  func(style textStyle) int // the height of a line of text

	step       int // the height of a step with n lines of text is step + n * stepLine
	stepLine   int
	stepMin    int // least and greatest width of a step
	stepMax    int
	row        int  // the height of an action
	frame      int  // the height of the frame of a table of actions
	cell       int  // between text and border, at one side
	connect    int  // from the top of a step to the line that leads to its actions
	action     int  // greatest width of the text of an action
	kinds      bool // the types of commands and events are shown
	bare       bool // of actions only those of active and failed steps are, with name and state
	lead       int  // the link above a box
	above      int  // the link between the top of a transition and its first line of text
	below      int
	bar        int // half the length of the bar of a transition
	condition  int // greatest width of a condition
	lines      int // greatest number of its lines
	gap        int // between things side by side
	tie        int // the line from a step to its actions
	clear      int // between things one above the other, in columns side by side
	fork       int // the link between a node and the line that its ways leave from
	single     int // thickness of a line: 0 in a picture, a cell in a terminal; and of double ones
	double     int
	over       int // how far double lines reach beyond their outermost links
	landing    int // the height of the mark at the target of a jump
	arrow      int // the length of its arrow
	jump       int // the link above the arrowhead of a jump, and the arrowhead
	endW, endH int
	margin     int
}

// pixels are the measures of a picture. The estimates of widths suit the widest of the fonts that the style sheet names.
var pixels = metrics{
	width: func(style textStyle, s string) int { return pixelWidth(fontSizes[style], style, s) },
	line:  func(style textStyle) int { return fontSizes[style] + 4 },
	step:  16, stepLine: 12, stepMin: 112, stepMax: 260, row: 40, cell: 10, connect: 20, action: 260, kinds: true,
	lead: 14, above: 12, below: 10, bar: 15, condition: 400, lines: 4, gap: 34, tie: 24, clear: 16, fork: 16, double: 4, over: 16,
	landing: 20, arrow: 26, jump: 22, endW: 46, endH: 22, margin: 20,
}

// cells are the measures of a terminal.
var cells = metrics{
	width: func(_ textStyle, s string) int { return cellWidth(s) },
	line:  func(textStyle) int { return 1 },
	step:  2, stepLine: 1, stepMin: 9, stepMax: 32, row: 1, frame: 1, cell: 1, connect: 1, action: 40,
	bar: 1, condition: 48, lines: 3, gap: 3, tie: 3, clear: 1, fork: 0, single: 1, double: 1, over: 2,
	landing: 1, arrow: 3, jump: 1, endW: 5, endH: 1,
}

var fontSizes = map[textStyle]int{
	styleStep: 13, styleNote: 10, styleQualifier: 12, styleAction: 12, styleKind: 10, styleTime: 11, styleState: 11,
	styleCondition: 12, stylePriority: 11, styleWait: 11, styleBranch: 11, styleJump: 12, styleLanding: 11, styleEnd: 12, styleHead: 13,
}

// pixelWidth estimates the width of s from above.
func pixelWidth(size int, style textStyle, s string) int {
	percent := 0
	for _, r := range s {
		switch {
		case cellWidth(string(r)) != 1:
			percent += 100 * cellWidth(string(r))
		case style == styleCondition:
			percent += 61
		case strings.ContainsRune("iljI.,:;'|!", r):
			percent += 36
		case strings.ContainsRune("ftr()[]{}-/ \"", r):
			percent += 43
		case strings.ContainsRune("mwMW@%→←…", r):
			percent += 98
		case unicode.IsUpper(r):
			percent += 74
		default:
			percent += 63
		}
	}
	if style == styleStep || style == styleHead {
		percent += percent / 12
	}
	return (percent*size + 99) / 100
}

// cellWidth is how many cells of a terminal s takes.
func cellWidth(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
			r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
			n += 2
		default:
			n++
		}
	}
	return n
}

// clean is s in one line, without what a terminal or an XML reader would take for more than text.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// short cuts s to a width and says whether it did.
func (m *metrics) short(style textStyle, s string, width int) (string, bool) {
	if m.width(style, s) <= width {
		return s, false
	}
	runes := []rune(s)
	n := sort.Search(len(runes), func(n int) bool { return m.width(style, string(runes[:n+1])+"…") > width })
	return strings.TrimRight(string(runes[:n]), " ") + "…", true
}

// tail cuts s to a width at its beginning.
func (m *metrics) tail(style textStyle, s string, width int) string {
	if m.width(style, s) <= width {
		return s
	}
	runes := []rune(s)
	n := sort.Search(len(runes), func(n int) bool { return m.width(style, "…"+string(runes[n:])) <= width })
	return "…" + string(runes[n:])
}

// operators stand at the head of a line rather than at its end.
var operators = map[string]bool{"and": true, "or": true, "<": true, "<=": true, ">": true, ">=": true, "==": true, "!=": true, "in": true, "+": true, "-": true, "*": true, "/": true, "??": true}

// wrap breaks s into at most limit lines of a width, between words, or before the dots of a word that is too long, and says
// whether anything was cut.
func (m *metrics) wrap(style textStyle, s string, width, limit int) (lines []string, cut bool) {
	var words []string // each with the space before it
	for _, word := range strings.Fields(s) {
		words = append(words, m.pieces(style, " "+word, width)...)
	}
	line := ""
	for i, word := range words {
		fits := func(s string) bool { return m.width(style, strings.TrimSpace(s)) <= width }
		operand := "" // of an operator, which stays with it if a line has room for both
		if operators[strings.TrimSpace(word)] && i+1 < len(words) && fits(word+words[i+1]) {
			operand = words[i+1]
		}
		if line == "" || fits(line+word+operand) {
			line = strings.TrimSpace(line + word)
			continue
		}
		if len(lines)+1 == limit {
			line += strings.Join(words[i:], "")
			break
		}
		lines, line = append(lines, line), strings.TrimSpace(word)
	}
	lines = append(lines, line)
	for i := range lines {
		var c bool
		lines[i], c = m.short(style, lines[i], width)
		cut = cut || c
	}
	return lines, cut
}

// pieces breaks a word that is wider than a line before dots.
func (m *metrics) pieces(style textStyle, word string, width int) []string {
	if m.width(style, word) <= width {
		return []string{word}
	}
	var pieces []string
	for i, part := range strings.Split(word, ".") {
		if i > 0 {
			part = "." + part
		}
		if last := len(pieces) - 1; last >= 0 && m.width(style, pieces[last]+part) <= width {
			pieces[last] += part
		} else {
			pieces = append(pieces, part)
		}
	}
	return pieces
}
