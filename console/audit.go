package console

import (
	"context"
	"html"
	"net/http"
	"regexp"

	"github.com/taktworks/takt/internal/telemetry"
	"github.com/taktworks/takt/jobstore"
)

// audit records what a user did, in the log and in Redis. What cannot be recorded is done all the same, and every page says so.
func (c *Console) audit(ctx context.Context, e jobstore.AuditEntry) {
	e.Outcome = telemetry.Hide(e.Outcome)
	c.o.Log.Info("a user of the console acted", "action", e.Action, "object", e.Object, "user", e.User, "role", e.Role, "address", e.Address, "reason", e.Reason, "outcome", e.Outcome)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // the browser may have gone, the deed has not
	defer cancel()
	store, err := c.needStore()
	if err == nil {
		err = store.Audit(ctx, e)
	}
	if err == nil {
		c.unrecorded.Store(nil)
		return
	}
	c.o.Log.Error("what a user of the console did is not recorded", "action", e.Action, "object", e.Object, "user", e.User, "err", err)
	why := telemetry.Hide(jobstore.Reason(err)) + ". It is in the log of the console alone, until the next one that can be recorded."
	if jobstore.Waits(err) && !jobstore.Away(err) {
		why = "Redis denies it. Give its user of the console the right (+xadd ~PREFIX:console:audit). Until then it is in the log of the console alone."
	}
	c.unrecorded.Store(&why)
}

// AuditPage is a page of what users did, the newest first.
type AuditPage struct {
	*Frame
	User    string                `json:"user,omitempty"` // alone; "" = all
	Before  string                `json:"before,omitempty"`
	Records []jobstore.AuditEntry `json:"entries"`
	cursor
}

var auditPages = []page{{"/audit", "audit", Admin, (*Console).auditPage, &AuditPage{}, "user before"}}

var entryID = regexp.MustCompile(`^\d{1,20}-\d{1,20}$`)

func (c *Console) auditPage(ctx context.Context, r *http.Request) (shown, error) {
	p := &AuditPage{Frame: c.newFrame("Audit", "Audit"), User: r.FormValue("user"), Before: r.FormValue("before"), cursor: cursorOf(r, "before", "user")}
	if p.Before != "" && !entryID.MatchString(p.Before) {
		return nil, &problem{http.StatusBadRequest, "No such page", "before must be the id of an entry, as the link to older entries has it."}
	}
	store, err := c.needStore()
	if err != nil {
		return nil, err
	}
	if p.Records, err = store.Audits(ctx, p.User, p.Before, perPage+1); err != nil {
		return nil, away(err)
	}
	if len(p.Records) > perPage {
		p.Records = p.Records[:perPage]
		p.Next = p.Records[perPage-1].ID
	}
	if p.User == "" { // of one user it takes a look through all
		p.polled(r)
	}
	return p, nil
}

// auditText is a text as the page shows it; JSON has all of it.
func auditText(text string) string {
	cut := text
	for len(html.EscapeString(cut)) > 200 {
		cut = shorten(cut, len(cut)*3/4)
	}
	if cut != text {
		cut += "…"
	}
	return cut
}
