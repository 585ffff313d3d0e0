package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	{"/boards/{name}/{id}/abandon", "board.abandon", Operator, askPosting("Give the claim back?", "Its owner loses the claim while it may be at work, and another one may claim the posting at once."), endClaim((*board.Board).Abandon, "The claim was ended: the posting can be claimed.")},
	{"/boards/{name}/{id}/trash", "board.trash", Operator, askPosting("Put the posting aside?", "Its owner loses the claim while it may be at work, and nobody can claim the posting until it is restored."), endClaim((*board.Board).Trash, "The claim was ended: the posting is in the trash.")},
	{"/boards/{name}/{id}/restore", "board.restore", Operator, nil, onRecord((*board.Board).Restore, "The posting is on the board again, and can be claimed.")},
	{"/boards/{name}/{id}/purge", "board.purge", Admin, askPosting("Delete the posting for good?", "It is in no list after that, and cannot be restored."), onRecord((*board.Board).Purge, "The posting is deleted.")},
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
	last  *contents
	until time.Time
}

type contents struct {
	read        time.Time
	count       int
	rows, trash []board.Row
	malformed   int
	entities    []board.Entity
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
func (c *Console) contentsOf(ctx context.Context, name string) (*contents, error) {
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
	now := &contents{read: began.UTC()}
	if now.count, err = b.Count(ctx); err == nil && now.count <= listingMost {
		now.rows, err = b.List(ctx, board.ListOptions{OnMalformed: func(board.Malformed) { now.malformed++ }})
	}
	if err == nil {
		now.trash, err = b.TrashList(ctx)
	}
	if err == nil {
		now.entities, err = b.Entities(ctx, "")
	}
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
	Name       string       `json:"name"`
	URL        string       `json:"url"`
	Problem    string       `json:"problem,omitempty"` // why the rest is missing
	Records    int          `json:"records"`           // malformed ones among them
	Unclaimed  int          `json:"unclaimed"`
	Claimed    int          `json:"claimed"`
	Trashed    int          `json:"trashed"`
	Malformed  int          `json:"malformed"`
	Conductors int          `json:"conductors"` // and others that are registered
	Oldest     time.Time    `json:"oldest_unclaimed,omitzero"`
	Priorities []OfPriority `json:"unclaimed_by_priority"`
	Path       string       `json:"-"`
}

// OfPriority is how many postings of a priority are unclaimed.
type OfPriority struct {
	Priority string `json:"priority"`
	Postings int    `json:"postings"`
}

func countOf(o BoardOptions, all *contents) BoardCount {
	n := BoardCount{Name: o.Name, URL: o.URL, Path: boardPath(o.Name), Records: all.count, Trashed: len(all.trash), Malformed: all.malformed, Conductors: len(all.entities)}
	by := make(map[board.Priority]int)
	for _, r := range all.rows {
		if r.State == board.Claimed {
			n.Claimed++
			continue
		}
		n.Unclaimed++
		by[r.Priority]++
		if n.Oldest.IsZero() || r.CreatedOn.Before(n.Oldest) {
			n.Oldest = r.CreatedOn
		}
	}
	for p := board.VeryHigh; p >= board.VeryLow; p-- {
		n.Priorities = append(n.Priorities, OfPriority{p.String(), by[p]})
	}
	return n
}

func (c *Console) boardList(ctx context.Context, r *http.Request) (shown, error) {
	o := &Boards{Frame: c.newFrame("Boards", "Boards"), Boards: make([]BoardCount, len(c.o.Boards))}
	o.polled(r)
	ctx, cancel := context.WithTimeout(ctx, readWithin*3/4) // one that does not answer leaves time for the page
	defer cancel()
	var all sync.WaitGroup
	for i, of := range c.o.Boards {
		all.Go(func() {
			now, err := c.contentsOf(ctx, of.Name)
			if err != nil {
				o.Boards[i] = BoardCount{Name: of.Name, URL: of.URL, Path: boardPath(of.Name), Problem: telemetry.Hide(err.Error())}
				return
			}
			o.Boards[i] = countOf(of, now)
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

// Posting is one posting.
type Posting struct {
	Ref      string         `json:"ref"`
	UUID     string         `json:"uuid"`
	Name     string         `json:"name"`
	Priority board.Priority `json:"priority"`
	State    string         `json:"state"`
	Owner    string         `json:"owner,omitempty"`
	Created  time.Time      `json:"created_on,omitzero"`
	Path     string         `json:"-"`
	Short    string         `json:"details_short,omitempty"` // the first bytes, in lists
}

func postingOf(name string, r *board.Row) Posting {
	return Posting{Ref: r.Ref, UUID: r.UUID, Name: r.Name, Priority: r.Priority, State: strings.ToLower(r.State.String()), Owner: r.Owner, Created: r.CreatedOn, Path: below(boardPath(name), r.Ref)}
}

// Tone is the class of the color of its state.
func (p Posting) Tone() string {
	return map[string]string{"claimed": "active", "trashed": "waits"}[p.State]
}

// Label is what a list calls it, and By its owner there.
func (p Posting) Label() string { return brief(cmp.Or(p.Name, p.Ref, "without a name"), 80) }
func (p Posting) By() string    { return brief(p.Owner, 80) }

// detailsText is JSON of details, indented or on one line, or what Go says of those that JSON cannot say.
func detailsText(details map[string]any, indent string) string {
	if len(details) == 0 {
		return ""
	}
	text, err := json.Marshal(details)
	if err == nil && indent != "" {
		text, err = json.MarshalIndent(details, "", indent)
	}
	if err != nil {
		return fmt.Sprint(details)
	}
	return string(text)
}

// brief is a text for a cell of a table: on one line, cut to bytes.
func brief(text string, bytes int) string {
	if len(text) > bytes {
		text = shorten(text, bytes) + "…"
	}
	return strings.Join(strings.Fields(text), " ")
}

func (c *Console) board(ctx context.Context, r *http.Request) (shown, error) {
	name := r.PathValue("name")
	o := &Board{Frame: c.newFrame(name, "Boards"), State: r.FormValue("state"), ID: r.FormValue("id"), Postings: []Posting{}}
	if !slices.Contains([]string{"", "unclaimed", "claimed", "trashed"}, o.State) {
		return nil, &problem{http.StatusBadRequest, "No such state", fmt.Sprintf("state is %q: must be unclaimed, claimed or trashed", o.State)}
	}
	var err error
	if o.pager, err = pagerOf(r); err != nil {
		return nil, err
	}
	all, err := c.contentsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	o.polled(r)
	o.Read, o.TooMany = all.read, all.count > listingMost
	o.Count = countOf(c.o.Boards[slices.IndexFunc(c.o.Boards, func(b BoardOptions) bool { return b.Name == name })], all)
	o.Entities = all.entities[:min(len(all.entities), entitiesShown)]
	rows := all.rows
	if o.State == "trashed" {
		rows = all.trash
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
		p.Short = brief(detailsText(r.Details, ""), 64)
		o.Postings = append(o.Postings, p)
	}
	return o, nil
}

// pager is where a page of a list is.
type pager struct {
	Total int `json:"total"`
	Page  int `json:"page"` // from 1
	Pages int `json:"pages"`
}

func pagerOf(r *http.Request) (pager, error) {
	text := cmp.Or(r.FormValue("page"), "1")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return pager{}, &problem{http.StatusBadRequest, "No such page", fmt.Sprintf("page is %q: must be a number from 1", text)}
	}
	return pager{Page: n}, nil
}

// pageOf is the page of all, or the last one.
func pageOf[T any](p *pager, all []T) []T {
	p.Total, p.Pages = len(all), max(1, (len(all)+perPage-1)/perPage)
	p.Page = min(p.Page, p.Pages)
	return all[(p.Page-1)*perPage : min(p.Page*perPage, len(all))]
}

// Before and After are the pages beside this one.
func (p pager) Before() int { return p.Page - 1 }
func (p pager) After() int  { return p.Page + 1 }

// Link is the address of the list with another filter: a name and a value.
func (o *Board) Link(name string, value any) string {
	q := url.Values{"state": {o.State}, "id": {o.ID}}
	q.Set(name, fmt.Sprint(value))
	return o.Count.Path + query(q)
}

// query is what follows a path: the parameters that are not empty.
func query(q url.Values) string {
	maps.DeleteFunc(q, func(_ string, v []string) bool { return v[0] == "" })
	return strings.TrimSuffix("?"+q.Encode(), "?")
}

// OnePosting is all that is known of one posting.
type OnePosting struct {
	*Frame
	Board    string         `json:"board"`
	Posting                 // the same as in the list
	Modified time.Time      `json:"last_modified,omitzero"`
	Expires  time.Time      `json:"claim_ends,omitzero"` // unless it is extended; zero = it does not end by itself, or there is none
	Sequence int64          `json:"sequence"`
	Book     *board.Book    `json:"book,omitempty"`
	Details  any            `json:"details"`
	Extra    map[string]any `json:"extra,omitempty"`

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
		return nil, &problem{http.StatusConflict, "No posting", fmt.Sprintf("The record %s is no posting: %v. takt board trash --malformed puts it aside.", brief(bad.Ref, 200), bad.Err)}
	}
	if err != nil {
		return nil, noBoard(err)
	}
	o := &OnePosting{
		Frame: c.newFrame(cmp.Or(row.Name, id), "Boards"), Board: name, Posting: postingOf(name, &row), Modified: row.LastModified, Sequence: row.Sequence, Book: row.Book, Extra: row.Extra,
		BoardPath: boardPath(name), Text: cut(detailsText(row.Details, "  ")), Details: row.Details,
	}
	if _, err := json.Marshal([]any{row.Details, row.Extra}); err != nil { // a number that JSON has not
		o.Details, o.Extra = fmt.Sprint(row.Details), nil
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

func askPosting(question, text string) func(*http.Request) (string, string) {
	return func(*http.Request) (string, string) { return question, text }
}

// endClaim ends the claim of the owner that the form names, and of no other: who asked for it saw that one.
func endClaim(how func(*board.Board, context.Context, *board.Posting, string) error, said string) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		owner := r.PostForm.Get("owner")
		if owner == "" {
			return nil, refusal(errors.New("owner is empty: must be the owner of the claim, as the page shows it"))
		}
		return c.onBoard(ctx, r, said, func(b *board.Board, id string) error {
			row, err := b.Find(ctx, id)
			if err != nil {
				return err
			}
			return how(b, ctx, row.Posting, owner)
		})
	}
}

func onRecord(how func(*board.Board, context.Context, string) error, said string) func(*Console, context.Context, *http.Request) (*Result, error) {
	return func(c *Console, ctx context.Context, r *http.Request) (*Result, error) {
		return c.onBoard(ctx, r, said, func(b *board.Board, id string) error { return how(b, ctx, id) })
	}
}

// onBoard changes what a request names.
func (c *Console) onBoard(ctx context.Context, r *http.Request, said string, change func(b *board.Board, id string) error) (*Result, error) {
	name, id := r.PathValue("name"), idOf(r)
	b, err := c.openBoard(ctx, name)
	if err != nil {
		return nil, err
	}
	err = change(b, id)
	c.listings.Delete(name) // the next look reads the board
	switch {
	case errors.Is(err, board.ErrAway) || errors.Is(err, board.ErrNotFound):
		return nil, noBoard(err)
	case errors.Is(err, board.ErrUnowned), errors.Is(err, board.ErrExists), errors.Is(err, board.ErrClaimLost):
		return nil, &problem{http.StatusConflict, "Refused", err.Error()}
	case err != nil:
		if _, other := errors.AsType[*board.NotOwnerError](err); other {
			return nil, &problem{http.StatusConflict, "Refused", err.Error() + ". It was claimed since: look at it again."}
		}
		return nil, refusal(err)
	}
	back := localPath(r.PostForm.Get("back"))
	if back == "/" {
		back = boardPath(name)
	}
	return done(name+"/"+id, back, "%s", said), nil
}
