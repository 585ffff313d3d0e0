package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
)

// action is a change that a page offers: a POST by a form or by a program.
type action struct {
	pattern string // of ServeMux, without the method; below /api/v1, too
	name    string // for the record, part and verb: task.retry
	role    Role   // that it takes at least
	// ask is the question that a page puts before it, for what cannot be taken back, with what will happen; nil: none, or do asks itself.
	ask func(r *http.Request) (question, text string)
	// do carries it out and says what became of it; the form is parsed. An error is a *problem, or what its package says, which is shown.
	do func(c *Console, ctx context.Context, r *http.Request) (*Result, error)
}

// actions are those of all pages.
func actions() []action {
	return slices.Concat(orderActions, systemActions, boardActions, workflowActions, taskActions)
}

// Result is what became of an action.
type Result struct {
	*mes.Outcome           // of a job method
	OK           bool      `json:"ok"`
	Text         string    `json:"text"` // one sentence: what was done
	Scope        string    `json:"scope,omitempty"`
	Time         time.Time `json:"time"`

	object string // that the record names: the id of a task, order, queue
	back   string // address of the page that shows it
	status int    // of HTTP; 0 = 200
}

// done is the result of an action that was carried out.
func done(object, back, format string, args ...any) *Result {
	return &Result{OK: true, Text: fmt.Sprintf(format, args...), object: object, back: back}
}

// AskPage asks before an action is carried out.
type AskPage struct {
	*Frame
	Question string     `json:"question"`
	Text     string     `json:"text"`
	Action   string     `json:"action"`
	Form     url.Values `json:"form"`
	Back     string     `json:"back"`
}

const (
	maxForm     = 64 << 10
	objectShown = 300              // bytes of the record
	actWithin   = 25 * time.Second // an action on many goes so far; before the time for writing an answer is over
)

// partly is the result of an action on many that an error ended after n of them.
func partly(object, back string, n int, err error) *Result {
	why := telemetry.Hide(err.Error())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("it takes at most %v at once", actWithin)
	case jobstore.Waits(err):
		why = jobstore.Reason(err)
	}
	return &Result{object: object, back: back, status: http.StatusServiceUnavailable, Text: fmt.Sprintf("%d were done, then it ended: %s. Do it again to go on with the rest.", n, why)}
}

func (c *Console) act(a action, api bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := visitorOf(r.Context()); who.Role < a.role {
			c.fail(w, r, &problem{http.StatusForbidden, "Not allowed", fmt.Sprintf("%s takes the role %s; yours is %s. Nothing was done.", a.name, a.role, who.Role)})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if kind := r.Header.Get("Content-Type"); r.ContentLength != 0 && !strings.HasPrefix(kind, formType) {
			c.fail(w, r, &problem{http.StatusUnsupportedMediaType, "Not a form", fmt.Sprintf("Content-Type is %q: must be %s. Nothing was done.", kind, formType)})
			return
		}
		if err := r.ParseForm(); err != nil {
			c.fail(w, r, &problem{http.StatusBadRequest, "The form cannot be read", err.Error()})
			return
		}
		if a.ask != nil && r.PostForm.Get("sure") != "yes" {
			c.ask(w, r, a, api)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), actWithin)
		defer cancel()
		result, err := a.do(c, ctx, r)
		if err != nil {
			err = undone(err)
			c.record(r.Context(), a, r, objectOf(r), "error: "+err.Error())
			c.fail(w, r, err)
			return
		}
		if result.status == 0 {
			result.status = http.StatusOK
		}
		result.Time = time.Now().UTC()
		if result.Text != "" {
			c.record(r.Context(), a, r, result.object, result.Text)
		}
		if api {
			writeJSON(w, result.status, result)
			return
		}
		back := result.back
		if result.Text != "" {
			mark := "?"
			if strings.Contains(back, "?") {
				mark = "&"
			}
			back += mark + "result=" + c.results.add(result)
		}
		http.Redirect(w, r, back, http.StatusSeeOther)
	})
}

// ask puts the question of an action, in a form that sends it again.
func (c *Console) ask(w http.ResponseWriter, r *http.Request, a action, api bool) {
	question, text := a.ask(r)
	if api {
		c.fail(w, r, &problem{http.StatusBadRequest, "", fmt.Sprintf("sure is %q: must be yes for %s: %s", r.PostForm.Get("sure"), a.name, text)})
		return
	}
	p := &AskPage{Frame: c.newFrame(question, ""), Question: question, Text: text, Action: r.URL.Path, Form: r.PostForm, Back: localPath(r.PostForm.Get("back"))}
	p.Frame.Visitor = visitorOf(r.Context())
	c.render(w, http.StatusOK, "ask", p)
}

// localPath is an address of this console that a form names to go back to; "/" if it is none.
func localPath(back string) string {
	u, err := url.Parse(back)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.Contains(back, `\`) {
		return "/"
	}
	return u.RequestURI()
}

// record notes an action: user, action, object, reason and outcome.
func (c *Console) record(ctx context.Context, a action, r *http.Request, object, outcome string) {
	who := visitorOf(ctx)
	c.audit(ctx, jobstore.AuditEntry{
		User: who.Name, Role: who.Role.String(), Address: who.Address, Action: a.name, Object: object,
		Reason: cmp.Or(r.PostForm.Get("reason"), r.PostForm.Get("comment")), Outcome: outcome,
	})
}

const formType = "application/x-www-form-urlencoded"

// objectOf is what a request names: its address, and the short fields of its form.
func objectOf(r *http.Request) string {
	named := url.Values{}
	for name, values := range r.PostForm {
		if !slices.Contains([]string{"sure", "back", "reason", "comment", "command", "arg"}, name) {
			named[name] = values
		}
	}
	text := strings.TrimSpace(strings.TrimPrefix(r.URL.Path, apiPath) + " " + named.Encode())
	if len(text) > objectShown {
		return shorten(text, objectShown)
	}
	return text
}

// undone says of an error of Redis what it means for an action, where away says it for a page.
func undone(err error) error {
	p, ok := errors.AsType[*trouble](err)
	switch {
	case !ok:
		return err
	case p.denied:
		return &problem{http.StatusForbidden, "Redis denies it", "Nothing was done: " + p.reason + "."}
	}
	return &problem{p.status, p.Title, "Whether it was done is not known: " + p.reason + ". Look at the page once Redis answers, and do it again if need be."}
}

// refusal is a *problem for input that an action does not take.
func refusal(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return &problem{http.StatusBadRequest, "Refused", err.Error()}
}

// results keeps the latest outcomes for the pages that follow them, by a name that cannot be guessed: a link cannot make a page say something.
type results struct {
	mu  sync.Mutex
	of  map[string]*Result
	ids []string
}

const resultsKept = 256

func (s *results) add(r *Result) (id string) {
	id = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]*Result)
	}
	s.of[id], s.ids = r, append(s.ids, id)
	if len(s.ids) > resultsKept {
		delete(s.of, s.ids[0])
		s.ids = s.ids[1:]
	}
	return id
}

func (s *results) get(id string) *Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[id]
}
