package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// selection is the address of a list, with the parameters of its filter that are given.
type selection struct {
	Path   string `json:"-"`
	filter url.Values
}

// selectionOf is that of the page that r asks for, whose filter has parameters of these names.
func selectionOf(r *http.Request, names ...string) selection {
	l := selection{strings.TrimPrefix(r.URL.EscapedPath(), apiPath), url.Values{}}
	for _, name := range names {
		l.filter.Set(name, r.FormValue(name))
	}
	query(l.filter)
	return l
}

// Link is the address of the list with other parameters: pairs of names and values.
func (l selection) Link(change ...any) string {
	q := maps.Clone(l.filter)
	for pair := range slices.Chunk(change, 2) {
		q.Set(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
	}
	return l.Path + query(q)
}

// Filtered tells whether the filter leaves anything out.
func (l selection) Filtered() bool { return len(l.filter) > 0 }

// query is what follows a path: the parameters that are not empty.
func query(q url.Values) string {
	maps.DeleteFunc(q, func(_ string, v []string) bool { return v[0] == "" })
	return strings.TrimSuffix("?"+q.Encode(), "?")
}

// pager is a page of a list, by its number.
type pager struct {
	selection
	Total int `json:"total"`
	Page  int `json:"page"` // from 1
	Pages int `json:"pages"`
}

// pagerOf is the page that r asks for of a list whose filter has parameters of these names.
func pagerOf(r *http.Request, names ...string) (pager, error) {
	text := cmp.Or(r.FormValue("page"), "1")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return pager{}, &problem{http.StatusBadRequest, "No such page", fmt.Sprintf("page is %q: must be a number from 1", text)}
	}
	return pager{selection: selectionOf(r, names...), Page: n}, nil
}

// pageOf is the page of all, or the last one.
func pageOf[T any](p *pager, all []T) []T {
	from, to := p.turn(len(all), perPage)
	return all[from:to]
}

// turn finds where the page, or the last one, begins and ends among total, of which a page has at most per.
func (p *pager) turn(total, per int) (from, to int) {
	p.Total, p.Pages = total, max(1, (total+per-1)/per)
	p.Page = min(p.Page, p.Pages)
	return (p.Page - 1) * per, min(p.Page*per, total)
}

// Back is the address of this page; Before and After are the pages beside it.
func (p pager) Back() string { return p.Link("page", p.Page) }
func (p pager) Before() int  { return p.Page - 1 }
func (p pager) After() int   { return p.Page + 1 }

// cursor is a part of a list that goes on behind an entry.
type cursor struct {
	selection
	Next  string `json:"next,omitempty"` // of the parameter from, for the part that comes next; "" = this is the last
	First bool   `json:"-"`              // there is no part before
	from  string // name of the parameter that says where a part begins
}

func cursorOf(r *http.Request, from string, names ...string) cursor {
	return cursor{selection: selectionOf(r, names...), First: r.FormValue(from) == "", from: from}
}

// Onward is the address of the part that comes next.
func (c cursor) Onward() string { return c.Link(c.from, c.Next) }
