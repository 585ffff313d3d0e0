package chart

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/xml"
	"fmt"
	"strings"
)

// Style is the style sheet of the pictures, light and, by prefers-color-scheme, dark. A page with fragments has it once.
//
//go:embed style.css
var Style string

//go:embed figures.css
var figureStyle string

// PageStyle is Style for a page, with what fragments of the state machine and of trends need.
var PageStyle = Style + figureStyle

// SVG returns the chart as a file of its own, with the style sheet in it.
func (c *Chart) SVG(o Options) []byte { return c.picture(o, Style) }

// Fragment returns the chart as an svg element for a page that has Style.
func (c *Chart) Fragment(o Options) []byte { return c.picture(o, "") }

func (c *Chart) picture(o Options, style string) []byte {
	d := draw(c.recipe, newGraph(c.recipe), pixels, newState(o.Live))
	width, height := d.place(pixels.margin)
	p := newPicture(width, height, cmp.Or(o.Title, "Recipe"), style)
	for _, l := range d.lines {
		if l.x1 == l.x2 && l.y1 == l.y2 {
			continue
		}
		p.line(l)
	}
	for _, b := range d.boxes {
		p.box(b)
	}
	for _, t := range d.texts {
		p.text(t)
	}
	return p.close()
}

// picture is an SVG document that grows.
type picture struct{ bytes.Buffer }

func newPicture(width, height int, title, style string) *picture {
	p := &picture{}
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="takt-chart" role="img" width="%d" height="%d" viewBox="0 0 %d %d">`, width, height, width, height)
	p.printf("\n<title>%s</title>\n", escape(title))
	if style != "" {
		p.printf("<style>\n%s</style>\n", style)
	}
	p.printf(`<rect class="paper" width="%d" height="%d"/>`+"\n", width, height)
	return p
}

func (p *picture) close() []byte {
	p.WriteString("</svg>\n")
	return p.Bytes()
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder does not fail
	return b.String()
}

// titled closes an element, with a title for the pointer to show if there is one.
func (p *picture) titled(element, content, title string) {
	if title != "" {
		content += "<title>" + escape(title) + "</title>"
	}
	if content == "" {
		p.WriteString("/>\n")
		return
	}
	p.printf(">%s</%s>\n", content, element)
}

func (p *picture) line(l line) {
	y := l.y1
	switch l.kind {
	case lineDouble:
		p.printf(`<path class="rule" d="M%d %dH%dM%d %dH%d"`, l.x1, l.y1, l.x2, l.x1, l.y2, l.x2)
	case lineSingle:
		p.printf(`<path class="rule" d="M%d %dH%d"`, l.x1, y, l.x2)
	case lineBar:
		p.printf(`<path class="%s" d="M%d %dH%d"`, strings.TrimSpace("bar "+l.state), l.x1, y, l.x2)
	case lineConnect:
		p.printf(`<path class="connect" d="M%d %dH%d"`, l.x1, y, l.x2)
	case lineJump:
		p.printf(`<path class="link" d="M%d %dV%d"/><path class="tip" d="M%d %dl-5 -10h10z"`, l.x1, l.y1, l.y2-8, l.x2, l.y2)
	case lineLanding:
		p.printf(`<path class="link" d="M%d %dH%d"/><path class="tip" d="M%d %dl-9 -4.5v9z"`, l.x1, y, l.x2-8, l.x2, y)
	default:
		p.printf(`<path class="link" d="M%d %dV%d"`, l.x1, l.y1, l.y2)
	}
	p.titled("path", "", l.title)
}

func (p *picture) box(b box) {
	if b.state != "" {
		p.printf(`<g class="%s">`+"\n", b.state)
	}
	class, round := "box", 0
	switch b.kind {
	case boxAction:
		class = "cells"
	case boxEnd:
		round = b.h / 2
	}
	p.printf(`<rect class="%s" x="%d" y="%d" width="%d" height="%d"`, class, b.x, b.y, b.w, b.h)
	if round > 0 {
		p.printf(` rx="%d"`, round)
	}
	p.titled("rect", "", b.title)
	if b.kind == boxInitial {
		p.printf(`<rect class="inner" x="%d" y="%d" width="%d" height="%d"/>`+"\n", b.x+4, b.y+4, b.w-8, b.h-8)
	}
	for _, x := range b.cuts {
		p.printf(`<path class="cut" d="M%d %dv%d"/>`+"\n", x, b.y, b.h)
	}
	if b.state != "" {
		p.WriteString("</g>\n")
	}
}

func (p *picture) text(t text) {
	size := fontSizes[t.style]
	x, anchor := t.x, ""
	switch t.align {
	case atMiddle:
		x, anchor = t.x+t.w/2, ` text-anchor="middle"`
	case atEnd:
		x, anchor = t.x+t.w, ` text-anchor="end"`
	}
	p.printf(`<text class="%s" x="%d" y="%d"%s`, strings.TrimSpace(string(t.style)+" "+t.state), x, t.y+(t.h+size)/2-size/8, anchor)
	p.titled("text", escape(t.s), t.title)
}
