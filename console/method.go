package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
)

// Method is a job method that an order allows in its state.
type Method struct {
	Name    isa95.Method `json:"name"`
	Href    string       `json:"href"`
	Leads   string       `json:"leads_to"`          // state
	Confirm bool         `json:"confirm"`           // it cannot be taken back: a page asks first
	Does    string       `json:"does"`              // one sentence
	Command string       `json:"command,omitempty"` // id of the command that the button sends, so that a second press does nothing
	Danger  bool         `json:"-"`                 // it throws something away
}

// methodWords are the methods that need nothing but the id, in the order of the buttons.
var methodWords = []Method{
	{Name: isa95.Start, Does: "Lets the stored order start."},
	{Name: isa95.Pause, Does: "Interrupts the order: nothing more is sent to the equipment, and time-outs stand still."},
	{Name: isa95.Resume, Does: "Goes on where the order was interrupted."},
	{Name: isa95.RevokeStart, Does: "Takes the start back while the order does not run yet."},
	{Name: isa95.Stop, Confirm: true, Does: "Ends the order early, as completed, with the results so far."},
	{Name: isa95.Abort, Confirm: true, Danger: true, Does: "Ends the order as failed. Its equipment is told as the recipe says."},
	{Name: isa95.Cancel, Confirm: true, Danger: true, Does: "Takes the order back. It leaves all lists and is never run."},
	{Name: isa95.Clear, Confirm: true, Danger: true, Does: "Forgets the order and its result. Do it only if the MES has the result."},
}

// methods are those that an order allows now.
func methods(id isa95.JobOrderID, state isa95.State) (all []Method) {
	allowed := isa95.Allowed(state)
	for _, m := range methodWords {
		if !slices.Contains(allowed, m.Name) {
			continue
		}
		m.Href = orderPath(string(id)) + "/" + strings.ToLower(string(m.Name))
		m.Command = "console-" + rand.Text()
		if next, ok := isa95.Next(state, m.Name); ok {
			m.Leads = next.String()
		}
		all = append(all, m)
	}
	return all
}

func orderPath(id string) string { return "/orders/" + url.PathEscape(id) }

// MethodPage asks before a method is sent.
type MethodPage struct {
	*Frame
	ID     string      `json:"id"`
	Scope  isa95.Scope `json:"scope"`
	State  string      `json:"state"`
	Method Method      `json:"method"`
}

func (c *Console) method(ctx context.Context, r *http.Request) (shown, error) {
	o, _, err := c.readOrder(ctx, r)
	if err != nil {
		return nil, err
	}
	m, err := methodOf(o, r.PathValue("method"))
	if err != nil {
		return nil, err
	}
	o.Frame.Title = string(m.Name) + " " + o.JobOrder.JobOrderID
	return &MethodPage{o.Frame, o.JobOrder.JobOrderID, o.Scope, o.State, m}, nil
}

// methodOf is the method of a path; with an error, too, if there is one and the order does not allow it.
func methodOf(o *OneOrder, name string) (Method, error) {
	is := func(m Method) bool { return strings.EqualFold(string(m.Name), name) }
	known := slices.IndexFunc(methodWords, is)
	if known < 0 {
		return Method{}, &problem{http.StatusNotFound, "No such method", fmt.Sprintf("The console has no job method %q.", name)}
	}
	all := methods(isa95.JobOrderID(o.JobOrder.JobOrderID), o.state)
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], nil
	}
	return methodWords[known], &problem{http.StatusConflict, "Not allowed now", fmt.Sprintf("Job order %s is %s, which does not allow %s. Nothing was sent.", o.JobOrder.JobOrderID, o.State, name)}
}

var orderActions = []action{{pattern: "/orders/{id}/{method}", name: "job.method", role: Operator, do: (*Console).call}}

// call sends a method, as the buttons do.
func (c *Console) call(ctx context.Context, r *http.Request) (*Result, error) {
	within, cancel := context.WithTimeout(ctx, readWithin)
	o, _, err := c.readOrder(within, r)
	cancel()
	if err != nil {
		return nil, err
	}
	m, err := methodOf(o, r.PathValue("method"))
	sure := !m.Confirm || r.PostForm.Get("sure") == "yes"
	if again := m.Name != "" && sure && r.PostForm.Get("command") != ""; err != nil && !again { // a button that is pressed twice gets the first answer from Takt, which refuses what it has not had
		return nil, err
	}
	if !sure {
		if strings.HasPrefix(r.URL.Path, apiPath) {
			return nil, &problem{http.StatusBadRequest, "", fmt.Sprintf("sure is %q: must be yes for %s, which cannot be taken back", r.PostForm.Get("sure"), m.Name)}
		}
		return &Result{back: m.Href}, nil
	}
	result := c.send(ctx, o, m, r.PostForm)
	result.object, result.back = o.JobOrder.JobOrderID, orderPath(o.JobOrder.JobOrderID)
	return result, nil
}

// send calls the method, and waits for the answer for answerWithin.
func (c *Console) send(ctx context.Context, o *OneOrder, m Method, form url.Values) *Result {
	call := mes.Call{ID: form.Get("command"), Scope: o.Scope, Method: m.Name, JobOrderID: isa95.JobOrderID(o.JobOrder.JobOrderID)}
	if len(call.ID) > isa95.MaxName {
		call.ID = ""
	}
	if comment := strings.TrimSpace(form.Get("comment")); comment != "" {
		call.Comment = []isa95.LocalizedText{{Text: comment}}
	}
	result := &Result{Scope: string(o.Scope)}
	if h := c.broker.show("", ""); !h.Up {
		outcome := call.Outcome(0, nil)
		result.Outcome, result.status = &outcome, http.StatusServiceUnavailable
		result.Text = fmt.Sprintf("%s was not sent: the broker does not answer. Try again once it does.", m.Name)
		return result
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	status, err := c.o.MES.Call(ctx, call)
	refused, _ := errors.AsType[*mes.RefusedError](err)
	outcome := call.Outcome(status, refused)
	result.Outcome = &outcome
	switch {
	case refused != nil:
		result.Text = result.Outcome.String()
		result.status = http.StatusConflict
		return result
	case err != nil:
		result.Text = fmt.Sprintf("%s was sent, and no answer came within %v (%s): is takt serve running, with topic prefix %s? What became of it shows in the state below.", m.Name, answerWithin, telemetry.Hide(err.Error()), c.o.TopicPrefix)
		result.status = http.StatusGatewayTimeout
		return result
	}
	result.OK = true
	result.Text = string(m.Name) + " was carried out."
	return result
}
