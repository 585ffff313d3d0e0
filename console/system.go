package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/taktworks/takt/internal/survey"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// Setting is one value of the configuration in force.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // without secrets
	Origin string `json:"origin"` // flag, environment NAME, file PATH or default
}

var systemPages = []page{
	{"/system", "system", 0, (*Console).system, &System{}, ""},
	{"/system/dead", "letters", Operator, (*Console).dead, &Dead{}, "stream id before"}, // commands to equipment have what their answers must carry
	{"/search", "search", 0, (*Console).search, &Search{}, "q"},
}

var systemActions = []action{
	{"/system/check", "system.check", Operator, nil, (*Console).startCheck},
	{"/system/dead/{stream}/delete", "dead.delete", Operator, askLetter, letters((*jobstore.Store).DeleteLetter)},
	{"/system/dead/{stream}/clear", "dead.clear", Admin, askClear, letters((*jobstore.Store).DeleteLettersUntil)},
}

// Bounds of what looks at the whole system.
const (
	doctorWithin = 10 * time.Second
	doctorEvery  = time.Minute // while a browser shows the page
	checkWithin  = time.Minute
)

func (c *Console) surveys() {
	c.doctor = survey.New(doctorWithin, c.o.Doctor)
	c.check = survey.New[jobstore.Violation](checkWithin, nil)
	if c.o.Check != nil {
		c.check.Run = func(ctx context.Context) ([]jobstore.Violation, error) {
			store, err := c.needStore()
			if err != nil {
				return nil, err
			}
			return c.o.Check(ctx, store)
		}
	}
}

// System is how Takt itself is.
type System struct {
	*Frame
	Takt     string                            `json:"version"` // of this console
	Go       string                            `json:"go"`
	Doctor   *survey.State[jobstore.Diagnosis] `json:"doctor,omitempty"`
	Check    *survey.State[jobstore.Violation] `json:"check,omitempty"`
	Settings []Setting                         `json:"settings,omitempty"` // for operators
	Dead     []DeadPart                        `json:"dead"`
	jobstore.Condition
	Letters int64 `json:"dead_letters"`
}

// DeadPart is dead letters of one part.
type DeadPart struct {
	Name    string `json:"name"` // of the stream below the key prefix, or of the part
	Holds   string `json:"holds"`
	Letters int64  `json:"letters"`
	Href    string `json:"-"` // "" = they have no page
}

func (c *Console) system(ctx context.Context, r *http.Request) (shown, error) {
	if last := c.doctor.Now(); last != nil && time.Since(last.Ended) > doctorEvery {
		c.doctor.Ask()
	}
	o := &System{Frame: c.newFrame("System", "System"), Takt: c.o.Version, Go: runtime.Version(), Doctor: c.doctor.Now(), Check: c.check.Now()}
	o.polled(r)
	if o.Visitor = visitorOf(ctx); o.May("operator") {
		o.Settings = c.o.Settings
	}
	store, err := c.needStore()
	if err == nil {
		if o.Condition, err = store.Condition(ctx); err == nil {
			o.Dead, err = c.deadParts(ctx, store)
		}
	}
	o.note(err)
	o.Ticks = o.Check != nil && !o.Check.Began.IsZero() || slices.ContainsFunc(o.Streams, func(s jobstore.StreamInfo) bool { return !s.Oldest.IsZero() })
	for _, part := range o.Dead {
		o.Letters += part.Letters
	}
	return o, nil
}

// Given are the settings that have not their defaults, Defaults the others.
func (o *System) Given() []Setting { return slices.DeleteFunc(slices.Clone(o.Settings), isDefault) }
func (o *System) Defaults() []Setting {
	return slices.DeleteFunc(slices.Clone(o.Settings), func(s Setting) bool { return !isDefault(s) })
}

func isDefault(s Setting) bool { return s.Origin == "default" }

// deadParts counts the dead letters of all parts.
func (c *Console) deadParts(ctx context.Context, store *jobstore.Store) (parts []DeadPart, err error) {
	streams, err := store.DeadStreams(ctx)
	for _, d := range streams {
		parts = append(parts, DeadPart{d.Name, d.Holds, d.Letters, deadPath(d.Name)})
	}
	if err == nil && c.tasks.open != nil {
		part := DeadPart{Name: "tasks", Holds: "tasks that failed for good", Href: "/tasks/dead"}
		part.Letters, err = countDead(ctx, &c.tasks, func(t *task.Client) (int64, error) { return t.DeadLetters().Count(ctx) })
		parts = append(parts, part)
	}
	if err == nil && c.workflows.open != nil {
		part := DeadPart{Name: "workflow:out:dead", Holds: "messages between shards of workflows; redis-cli XRANGE shows them"}
		part.Letters, err = countDead(ctx, &c.workflows, func(w *workflow.Client) (int64, error) { return w.CountDead(ctx) })
		parts = append(parts, part)
	}
	return parts, err
}

func countDead[C any](ctx context.Context, s *source[C], count func(C) (int64, error)) (int64, error) {
	client, err := s.get(ctx)
	if err != nil {
		return 0, err
	}
	return count(client)
}

func deadPath(stream string) string { return "/system/dead?stream=" + url.QueryEscape(stream) }

// Dead is the dead letters of all parts, and those of one stream.
type Dead struct {
	*Frame
	Parts   []DeadPart        `json:"parts"`
	Stream  string            `json:"stream"`
	Letters []jobstore.Letter `json:"letters"` // the newest first
	cursor

	Boards bool     `json:"-"`
	Rows   []Buried `json:"-"`
}

// Buried is one dead letter for people.
type Buried struct {
	ID     string
	Time   time.Time
	Reason string
	Fields []Value
	Cut    bool // JSON has more
}

const (
	lettersPage = 10
	letterShown = 1000 // bytes of the values of one letter
)

func (c *Console) dead(ctx context.Context, r *http.Request) (shown, error) {
	o := &Dead{Frame: c.newFrame("Dead letters", "System"), Stream: r.FormValue("stream"), Letters: []jobstore.Letter{}, Boards: len(c.o.Boards) > 0, cursor: cursorOf(r, "before")}
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	if o.Parts, err = c.deadParts(ctx, store); err != nil {
		return nil, away(err)
	}
	streams := slices.DeleteFunc(slices.Clone(o.Parts), func(p DeadPart) bool { return p.Href != deadPath(p.Name) })
	if o.Stream == "" {
		o.Stream = streams[max(0, slices.IndexFunc(streams, func(p DeadPart) bool { return p.Letters > 0 }))].Name
	}
	id, before := r.FormValue("id"), r.FormValue("before")
	for name, value := range map[string]string{"id": id, "before": before} {
		if value != "" && !jobstore.IsEntryID(value) {
			return nil, &problem{http.StatusBadRequest, "No such dead letter", fmt.Sprintf("%s is %.64q: must be the id of an entry, MILLISECONDS-NUMBER", name, value)}
		}
	}
	if id != "" {
		o.Letters, err = store.Letter(ctx, o.Stream, id)
	} else {
		o.Letters, err = store.Letters(ctx, o.Stream, before, lettersPage+1)
	}
	if errors.Is(err, jobstore.ErrNotFound) {
		return nil, &problem{http.StatusNotFound, "No such dead letters", fmt.Sprintf("stream is %.64q: must be one of those that /system/dead lists.", o.Stream)}
	}
	if err != nil {
		return nil, away(err)
	}
	if len(o.Letters) > lettersPage {
		o.Letters = o.Letters[:lettersPage]
		o.Next = o.Letters[lettersPage-1].ID
	}
	for i := range o.Letters {
		o.Rows = append(o.Rows, buried(&o.Letters[i]))
	}
	o.filter.Set("stream", o.Stream)
	return o, nil
}

func buried(l *jobstore.Letter) Buried {
	b := Buried{ID: l.ID, Time: l.Time}
	left := letterShown
	cut := func(text string) string {
		if len(text) > left {
			text, b.Cut = shorten(text, left)+"…", true
		}
		left = max(left-len(text), 0)
		return text
	}
	reason, names := l.Read()
	b.Reason = cmp.Or(cut(reason), "no reason is given")
	for _, name := range names {
		b.Fields = append(b.Fields, Value{Name: cut(name), Text: cut(l.Fields[name])})
	}
	return b
}

func (c *Console) startCheck(context.Context, *http.Request) (*Result, error) {
	if c.check.Now() == nil {
		return nil, &problem{http.StatusNotFound, "Not set up", "This console was started without the check; takt check does the same."}
	}
	if !c.check.Ask() {
		return done("check", "/system", "A check goes on already; its result is shown here once it is over."), nil
	}
	return done("check", "/system", "The check has begun; its result is shown here once it is over."), nil
}

func askLetter(r *http.Request) (question, text string) {
	return "Delete this dead letter?", fmt.Sprintf("%s leaves %s for good. Nothing handles it again: what is still needed must be sent again.", r.PostForm.Get("id"), r.PathValue("stream"))
}

func askClear(r *http.Request) (question, text string) {
	return "Delete all these dead letters?", fmt.Sprintf("All that are in %s up to %s leave it for good; newer ones stay. Nothing handles them again: what is still needed must be sent again.", r.PathValue("stream"), r.PostForm.Get("id"))
}

// letters deletes some of a stream, by the id of an entry.
func letters(remove func(*jobstore.Store, context.Context, string, string) (int64, error)) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		stream, id := r.PathValue("stream"), r.PostForm.Get("id")
		refused := &problem{http.StatusBadRequest, "Refused", fmt.Sprintf("%.64q of %.64q is no dead letter: the stream must be one of those of /system/dead, id that of an entry. Nothing was deleted.", id, stream)}
		if !jobstore.IsEntryID(id) {
			return nil, refused
		}
		store, err := c.needStore()
		if err != nil {
			return nil, err
		}
		n, err := remove(store, ctx, stream, id)
		switch {
		case errors.Is(err, jobstore.ErrNotFound):
			return nil, refused
		case err != nil:
			return nil, away(err)
		case n == 0:
			return nil, &problem{http.StatusConflict, "It is gone", "Nothing was deleted: " + id + " is not in " + stream + " any more."}
		}
		return done(stream+" "+id, deadPath(stream), "%d dead %s deleted from %s.", n, map[bool]string{true: "letter was", false: "letters were"}[n == 1], stream), nil
	}
}
