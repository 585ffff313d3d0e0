package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taktworks/takt/chart"
	"github.com/taktworks/takt/isa95"
)

//go:embed templates
var templateFiles embed.FS

// templates are those of the pages, each with the layout around it.
var templates = parseTemplates()

func parseTemplates() map[string]*template.Template {
	all := make(map[string]*template.Template)
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // they are in the binary
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name == "layout" {
			continue
		}
		t := template.New(name).Funcs(template.FuncMap{
			"orderPath": orderPath, "stationPath": stationPath, "recipePath": recipePath, "values": values, "ago": ago, "clock": clock, "moment": moment, "stamp": stamp, "tone": tone, "cell": cell, "auditText": auditText, "drawn": drawn, "list": func(all ...any) []any { return all },
			"clipped": clipped, "taskPath": taskPath, "groupPath": groupPath, "taskTone": taskTone, "pretty": pretty, "whole": whole,
			"first": first, "more": more, "short": func(sha string) string { return fmt.Sprintf("%.12s", sha) },
			"instancePath": instancePath,
			"top":          func(state string) string { top, _, _ := strings.Cut(state, "_"); return top },
		})
		all[name] = template.Must(t.ParseFS(templateFiles, "templates/layout.html", "templates/"+name+".html"))
	}
	return all
}

func (c *Console) render(w http.ResponseWriter, status int, name string, data any) {
	var page bytes.Buffer
	if err := templates[name].ExecuteTemplate(&page, "layout", data); err != nil {
		c.o.Log.Error("a page of the console cannot be written", "page", name, "err", err)
		http.Error(w, "500: the page cannot be written; the log of the console says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the browser has gone
}

// clock is a time of today without its date.
func clock(at, now time.Time) string {
	switch at, now = at.UTC(), now.UTC(); {
	case at.IsZero():
		return ""
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04:05")
	}
	return at.Format("2006-01-02 15:04")
}

// moment is clock to the millisecond.
func moment(at, now time.Time) string {
	text := at.UTC().Format("2006-01-02 15:04:05.000")
	return strings.TrimPrefix(text, now.UTC().Format("2006-01-02 "))
}

// stamp is a time for programs.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// ago is how long ago something was, in its two largest units.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return chart.Took(now.Sub(at))
}

// drawn is a picture of package chart, which escapes all texts.
func drawn(svg []byte) template.HTML { return template.HTML(svg) }

// lasted is how long something took: as ago, but below a second in milliseconds.
func lasted(begin, end time.Time) string {
	if d := end.Sub(begin); 0 < d && d < time.Second {
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	}
	return ago(begin, end)
}

// tone is the class of the color of a state.
func tone(state string) string {
	switch top, _, _ := strings.Cut(state, "_"); top {
	case isa95.Running:
		return "active"
	case isa95.Ended:
		return "done"
	case isa95.Aborted:
		return "failed"
	case isa95.Interrupted:
		return "waits"
	}
	return "calm"
}

// shorten cuts a text to bytes, at the end of a character.
func shorten(text string, bytes int) string {
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// cell is a text as a cell of a table shows it; JSON has all of it.
func cell(text string) string { return noted(text, 300) }

// noted is a text cut to bytes that says so.
func noted(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return shorten(text, bytes) + "… (cut: the JSON of this page has all of it)"
}

// first are the first n of a list, and more is how many it has beyond them.
func first(n int, all any) any {
	v := reflect.ValueOf(all)
	return v.Slice(0, min(n, v.Len())).Interface()
}

func more(n int, all any) int { return max(0, reflect.ValueOf(all).Len()-n) }
