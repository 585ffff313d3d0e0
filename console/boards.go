package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/telemetry"
)

var boardPages = []page{
	{"/boards", "boards", 0, (*Console).boardList, &Boards{}, ""},
	{"/boards/{name}", "board", 0, (*Console).board, &Board{}, "state id page"},
	{"/boards/{name}/{id}", "posting", 0, (*Console).posting, &OnePosting{}, ""},
}

var boardActions = []action{
	{"/boards/{name}/{id}/abandon", "board.abandon", Operator, askID("Give the claim back?", "Its owner loses the claim while it may be at work, and another one may claim the posting at once."), onBoard("The claim was ended: the posting can be claimed.", endClaim((*board.Board).Abandon))},
	{"/boards/{name}/{id}/trash", "board.trash", Operator, askID("Put the posting aside?", "Its owner loses the claim while it may be at work, and the posting cannot be claimed until it is restored."), onBoard("The claim was ended: the posting is in the trash.", endClaim((*board.Board).Trash))},
	{"/boards/{name}/{id}/restore", "board.restore", Operator, nil, onBoard("The posting is on the board again, and can be claimed.", onRecord((*board.Board).Restore))},
	{"/boards/{name}/{id}/purge", "board.purge", Admin, askID("Delete the posting for good?", "It is in no list after that, and cannot be restored."), onBoard("The posting is deleted.", onRecord((*board.Board).Purge))},
}

// below is the address of what has an id in a folder. Ids that no path can hold, or that are those of other pages, stand in the query: idOf.
func below(folder, id string) string {
	switch id {
	case "", ".", "..", "-", "schedules":
		return folder + "/-?id=" + url.QueryEscape(id)
	}
	return folder + "/" + url.PathEscape(id)
}

// boardPath is the page of a board, whose name the console chose.
func boardPath(name string) string { return "/boards/" + url.PathEscape(name) }

// idOf is the id that an address made by below names, or a form that is sent to "-".
func idOf(r *http.Request) string {
	if id := r.PathValue("id"); id != "-" {
		return id
	}
	return r.FormValue("id")
}

// listing keeps what is on a board for all pages. Boards have no pages of their own, so each look reads all; it is kept for 20 times as long as that took, at most listingKept.
type listing struct {
	mu    sync.Mutex
	last  *board.Contents
	until time.Time
}

const (
	listingKept = 10 * time.Second
	listingMost = 50_000 // records on a board that is still listed
)

// openBoard is the board of a name of an address.
func (c *Console) openBoard(ctx context.Context, name string) (*board.Board, error) {
	source := c.boards[name]
	if source == nil {
		return nil, &problem{http.StatusNotFound, "No such board", fmt.Sprintf("This console shows no board %q: start it with --board URL.", name)}
	}
	return source.get(ctx)
}

// contentsOf lists a board. It has no rows if there are more than listingMost.
func (c *Console) contentsOf(ctx context.Context, name string) (*board.Contents, error) {
	b, err := c.openBoard(ctx, name)
	if err != nil {
		return nil, err
	}
	kept, _ := c.listings.LoadOrStore(name, new(listing))
	l := kept.(*listing)
	l.mu.Lock()
	defer l.mu.Unlock()
	began := time.Now()
	if began.Before(l.until) {
		return l.last, nil
	}
	now, err := b.Contents(ctx, listingMost)
	if err != nil {
		return nil, noBoard(err)
	}
	l.last, l.until = now, time.Now().Add(min(20*time.Since(began), listingKept))
	return now, nil
}

// noBoard says what an error of a board means for a page.
func noBoard(err error) error {
	switch {
	case errors.Is(err, board.ErrAway) || errors.Is(err, context.DeadlineExceeded):
		return &problem{http.StatusServiceUnavailable, "The board does not answer", "What this page shows cannot be read: " + telemetry.Hide(err.Error()) + ". The page comes back by itself once it can."}
	case errors.Is(err, board.ErrNotFound):
		return &problem{http.StatusNotFound, "No such posting", "The board has no such posting, nor has the trash: it was consumed or deleted, or never posted."}
	}
	return err
}

// Boards are all boards of the console.
type Boards struct {
	*Frame
	Boards []BoardCount `json:"boards"`
}

// BoardCount is how much there is on a board.
type BoardCount struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	Problem string `json:"problem,omitempty"` // why the rest is missing
	board.Stats
}

// Path is its page.
func (n BoardCount) Path() string { return boardPath(n.Name) }

// ByPriority are the priorities of unclaimed postings, the highest first.
func (BoardCount) ByPriority() (all []string) {
	for p := board.VeryHigh; p >= board.VeryLow; p-- {
		all = append(all, p.String())
	}
	return all
}

func (c *Console) boardList(ctx context.Context, r *http.Request) (shown, error) {
	o := &Boards{Frame: c.newFrame("Boards", "Boards"), Boards: make([]BoardCount, len(c.o.Boards))}
	o.polled(r)
	ctx, cancel := context.WithTimeout(ctx, readWithin*3/4) // one that does not answer leaves time for the page
	defer cancel()
	var all sync.WaitGroup
	for i, of := range c.o.Boards {
		all.Go(func() {
			n := BoardCount{Name: of.Name, URL: of.URL}
			if now, err := c.contentsOf(ctx, of.Name); err != nil {
				n.Problem = telemetry.Hide(err.Error())
			} else {
				n.Stats = now.Stats()
			}
			o.Boards[i] = n
		})
	}
	all.Wait()
	return o, nil
}

// Board is a page of the postings of a board, of the highest priority first, then the oldest; or of its trash, the oldest first.
type Board struct {
	*Frame
	Count    BoardCount     `json:"board"`
	State    string         `json:"state,omitempty"` // unclaimed, claimed or trashed; "" = all but these
	ID       string         `json:"id,omitempty"`    // a part of UUID, name or owner
	pager                   // of those that the filter lets through
	Postings []Posting      `json:"postings"`
	Entities []board.Entity `json:"entities"` // at most entitiesShown

	Read    time.Time `json:"-"`
	TooMany bool      `json:"-"`
}

const entitiesShown = 50

// Posting is one posting. In lists it has the begin of its details in place of them.
type Posting struct {
	board.View
	State string `json:"state"` // unclaimed, claimed or trashed
	Short string `json:"details_short,omitempty"`
	Path  string `json:"-"`
}

func postingOf(name string, r *board.Row) Posting {
	p := Posting{View: board.ViewOf(r), State: strings.ToLower(r.State.String()), Path: below(boardPath(name), r.Ref)}
	p.ExpiresIn = nil // it changes while nothing happens
	return p
}

// Tone is the class of the color of its state.
func (p Posting) Tone() string {
	return cmp.Or(map[string]string{"claimed": "active", "trashed": "waits"}[p.State], "calm")
}

func (c *Console) board(ctx context.Context, r *http.Request) (shown, error) {
	name := r.PathValue("name")
	o := &Board{Frame: c.newFrame(name, "Boards"), State: r.FormValue("state"), ID: r.FormValue("id"), Postings: []Posting{}}
	if !slices.Contains([]string{"", "unclaimed", "claimed", "trashed"}, o.State) {
		return nil, &problem{http.StatusBadRequest, "No such state", fmt.Sprintf("state is %q: must be unclaimed, claimed or trashed", o.State)}
	}
	var err error
	if o.pager, err = pagerOf(r, "state", "id"); err != nil {
		return nil, err
	}
	all, err := c.contentsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	o.polled(r)
	of := c.o.Boards[slices.IndexFunc(c.o.Boards, func(b BoardOptions) bool { return b.Name == name })]
	o.Read, o.Count = all.Read, BoardCount{Name: of.Name, URL: of.URL, Stats: all.Stats()}
	o.TooMany = all.Records > listingMost
	o.Entities = all.Entities[:min(len(all.Entities), entitiesShown)]
	rows := all.Rows
	if o.State == "trashed" {
		rows = all.Trash
	}
	var found []*board.Row
	for i := range rows {
		r := &rows[i]
		if (o.State == "" || o.State == strings.ToLower(r.State.String())) && (o.ID == "" || strings.Contains(r.UUID, o.ID) || strings.Contains(r.Name, o.ID) || strings.Contains(r.Owner, o.ID)) {
			found = append(found, r)
		}
	}
	for _, r := range pageOf(&o.pager, found) {
		p := postingOf(name, r)
		if len(r.Details) > 0 {
			text, _ := json.Marshal(p.Details) // a view can
			p.Short = clipped(string(text), 64)
		}
		p.Details, p.Extra = nil, nil
		o.Postings = append(o.Postings, p)
	}
	return o, nil
}

// OnePosting is all that is known of one posting.
type OnePosting struct {
	*Frame
	Board   string    `json:"board"`
	Posting           // the same as in the list, and details
	Expires time.Time `json:"claim_ends,omitzero"` // zero = the claim has no end, or there is no claim

	BoardPath, Text string `json:"-"`
}

func (c *Console) posting(ctx context.Context, r *http.Request) (shown, error) {
	name, id := r.PathValue("name"), idOf(r)
	b, err := c.openBoard(ctx, name)
	if err != nil {
		return nil, err
	}
	row, err := b.Find(ctx, id)
	if bad, ok := errors.AsType[board.Malformed](err); ok {
		return nil, &problem{http.StatusConflict, "No posting", fmt.Sprintf("The record %s is no posting: %v. takt board trash --malformed puts it aside.", clipped(bad.Ref, 200), bad.Err)}
	}
	if err != nil {
		return nil, noBoard(err)
	}
	o := &OnePosting{Frame: c.newFrame(cmp.Or(row.Name, id), "Boards"), Board: name, Posting: postingOf(name, &row), BoardPath: boardPath(name)}
	if len(row.Details) > 0 {
		text, _ := json.MarshalIndent(o.Details, "", "  ")
		o.Text = cut(string(text))
	}
	if row.ExpiresIn > 0 {
		o.Expires = o.Now.Add(row.ExpiresIn).Round(time.Second)
	}
	o.polled(r)
	return o, nil
}

// cut is a value as a page shows it.
func cut(text string) string {
	if len(text) > valueShown {
		return shorten(text, valueShown) + "\n(cut: the JSON of this page has all of it)"
	}
	return text
}

// askID asks about what an address names, with its id in the place of %s.
func askID(question, text string) func(*http.Request) (string, string) {
	return func(r *http.Request) (string, string) {
		return strings.ReplaceAll(question, "%s", clipped(idOf(r), 200)), text
	}
}

// recordChange changes the record of an id; the form says the rest.
type recordChange func(ctx context.Context, b *board.Board, id string, form url.Values) error

// endClaim ends the claim of the owner that the form names, and of no other: who asked for it saw that one.
func endClaim(how func(*board.Board, context.Context, *board.Posting, string) error) recordChange {
	return func(ctx context.Context, b *board.Board, id string, form url.Values) error {
		owner := form.Get("owner")
		if owner == "" {
			return errors.New("owner is empty: must be the owner of the claim, as the page shows it")
		}
		row, err := b.Find(ctx, id)
		if err != nil {
			return err
		}
		return how(b, ctx, row.Posting, owner)
	}
}

func onRecord(how func(*board.Board, context.Context, string) error) recordChange {
	return func(ctx context.Context, b *board.Board, id string, _ url.Values) error { return how(b, ctx, id) }
}

// onBoard changes what a request names.
func onBoard(said string, change recordChange) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		name, id := r.PathValue("name"), idOf(r)
		b, err := c.openBoard(ctx, name)
		if err != nil {
			return nil, err
		}
		err = change(ctx, b, id, r.PostForm)
		c.listings.Delete(name) // the next look reads the board
		switch {
		case err == nil:
			return done(name+"/"+id, localPath(cmp.Or(r.PostForm.Get("back"), boardPath(name))), "%s", said), nil
		case errors.Is(err, board.ErrAway) || errors.Is(err, board.ErrNotFound):
			return nil, noBoard(err)
		case errors.Is(err, board.ErrUnowned), errors.Is(err, board.ErrExists), errors.Is(err, board.ErrClaimLost):
			return nil, &problem{http.StatusConflict, "Refused", err.Error()}
		case is[*board.NotOwnerError](err):
			return nil, &problem{http.StatusConflict, "Refused", err.Error() + ". It was claimed since: look at it again."}
		}
		return nil, refusal(err)
	}
}
