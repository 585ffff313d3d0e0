package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/testenv"
)

// act sends an action by a form and returns the page that follows, or the answer that is not one.
func (p *plant) act(path string, form url.Values, want int) string {
	p.Helper()
	status, h, body := p.request(http.MethodPost, path, form, nil)
	if status != want {
		p.Fatalf("POST %s %v: %d, want %d\n%.1000s", path, form, status, want, body)
	}
	if status == http.StatusSeeOther {
		return p.get(h.Get("Location"), http.StatusOK)
	}
	return body
}

// asAdmin carries out an action that takes the role, with what an address names in path.
func (p *plant) asAdmin(name string, path map[string]string, form url.Values) *Result {
	p.Helper()
	for _, a := range actions() {
		if a.name != name {
			continue
		}
		if a.role != Admin || a.ask == nil {
			p.Errorf("%s takes the role %s, or asks nothing", name, a.role)
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for key, value := range path {
			r.SetPathValue(key, value)
		}
		testenv.Must(p, r.ParseForm())
		result, err := a.do(p.console, p.Context(), r)
		testenv.Must(p, err)
		return result
	}
	p.Fatalf("no action %s", name)
	return nil
}

// The pages say what the board says: counts, states, owners and details; the filter and the trash, too.
func TestBoards(t *testing.T) {
	p := newPlant(t)
	var posted []*board.Posting
	for i, priority := range []board.Priority{board.Low, board.High, board.Normal} {
		one, err := p.board.Post(t.Context(), board.Draft{Name: fmt.Sprintf("resize-%d", i), Priority: priority, Details: map[string]any{"image": fmt.Sprintf("cat-%d.png", i), "half": 0.5}})
		testenv.Must(t, err)
		posted = append(posted, one)
	}
	claim, err := p.board.Claim(t.Context(), posted[1], "worker-1", board.ClaimOptions{})
	testenv.Must(t, err)
	aside, err := p.board.Claim(t.Context(), posted[2], "worker-2", board.ClaimOptions{})
	testenv.Must(t, err)
	testenv.Must(t, aside.Trash(t.Context()))
	p.srv.Must(t, "HSET", p.prefix+":board:listings", "<b>bad", "{")

	var all Boards
	p.json("/api/v1/boards", &all)
	if b := all.Boards[0]; b.Name != "main" || b.URL != "board.example" || b.Records != 3 || b.Unclaimed != 1 || b.Claimed != 1 || b.Trashed != 1 || b.Malformed != 1 || b.Oldest.IsZero() || b.Priorities["LOW"] != 1 {
		t.Errorf("%+v", b)
	}
	for query, want := range map[string]string{"": "resize-1 resize-0", "?state=unclaimed": "resize-0", "?state=claimed": "resize-1", "?state=trashed": "resize-2", "?id=worker-1": "resize-1", "?id=" + posted[0].UUID[:8]: "resize-0", "?id=nothing": ""} {
		var page Board
		p.json("/api/v1/boards/main"+query, &page)
		var names []string
		for _, one := range page.Postings {
			names = append(names, one.Name)
			if one.ExpiresIn != nil {
				t.Errorf("%s: each look at %s shows something else", query, one.Name)
			}
		}
		if got := strings.Join(names, " "); got != want || page.Total != len(names) || page.Count.Malformed != 1 {
			t.Errorf("%s: %s, want %s; %+v", query, got, want, page.Count)
		}
	}
	var one OnePosting
	p.json("/api/v1/boards/main/"+posted[1].UUID, &one)
	if one.Name != "resize-1" || one.State != "claimed" || one.Owner != claim.Owner() || one.Priority != board.High || one.Expires.IsZero() || one.Details.(map[string]any)["image"] != "cat-1.png" {
		t.Errorf("%+v", one)
	}
	for path, wants := range map[string][]string{
		"/boards":                          {"board.example", `href="/boards/main"`, ">1 LOW<"},
		"/boards/main":                     {"worker-1/", "cat-0.png", "Malformed records that are not listed: 1", "No conductor is registered"},
		"/boards/main/" + posted[1].UUID:   {claim.Owner(), "cat-1.png", "unless the owner extends it", `action="/boards/main/-/abandon"`},
		"/boards/main/" + posted[2].UUID:   {`action="/boards/main/-/restore"`, "trashed"},
		"/boards/main?state=claimed&id=no": {"No posting matches"},
	} {
		body := p.get(path, http.StatusOK)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		if strings.Contains(body, "/-/purge") {
			t.Errorf("%s offers an operator what takes an admin", path)
		}
	}
}

// A claim is ended only for the owner that was seen, and after a question; what was put aside comes back; only an admin deletes for good.
func TestBoardActions(t *testing.T) {
	p := newPlant(t)
	post, err := p.board.Post(t.Context(), board.Draft{Name: "resize"})
	testenv.Must(t, err)
	state := func() string {
		t.Helper()
		r, err := p.board.Find(t.Context(), post.UUID)
		testenv.Must(t, err)
		return r.State.String()
	}
	claim, err := p.board.Claim(t.Context(), post, "worker-1", board.ClaimOptions{NoKeepAlive: true})
	testenv.Must(t, err)
	page := "/boards/main/" + post.UUID
	form := func(owner, sure string) url.Values {
		return url.Values{"id": {post.UUID}, "owner": {owner}, "sure": {sure}, "back": {page}}
	}
	if body := p.act("/boards/main/-/abandon", form(claim.Owner(), ""), http.StatusOK); !strings.Contains(body, "Give the claim back?") || !strings.Contains(body, `value="`+claim.Owner()) || state() != "CLAIMED" {
		t.Errorf("the question was not asked, or the claim is gone:\n%s", body)
	}
	p.act("/boards/main/-/abandon", form("worker-2", "yes"), http.StatusConflict)
	p.act("/boards/main/-/abandon", form("", "yes"), http.StatusBadRequest)
	p.act("/boards/other/-/abandon", form(claim.Owner(), "yes"), http.StatusNotFound)
	if got := state(); got != "CLAIMED" {
		t.Errorf("refused, and yet %s", got)
	}
	if body := p.act("/boards/main/-/abandon", form(claim.Owner(), "yes"), http.StatusSeeOther); !strings.Contains(body, "the posting can be claimed") || state() != "UNCLAIMED" {
		t.Errorf("it is %s", state())
	}
	p.act("/boards/main/-/trash", form("worker-1", "yes"), http.StatusConflict) // nobody owns it
	claim, err = p.board.Claim(t.Context(), post, "worker-1", board.ClaimOptions{NoKeepAlive: true})
	testenv.Must(t, err)
	if body := p.act("/boards/main/-/trash", form(claim.Owner(), "yes"), http.StatusSeeOther); !strings.Contains(body, "the posting is in the trash") || state() != "TRASHED" {
		t.Errorf("it is %s", state())
	}
	p.act("/boards/main/-/purge", form("", "yes"), http.StatusForbidden)
	if p.srv.Number(t, "HLEN", p.prefix+":board:trash") != 1 {
		t.Error("an operator deleted it for good")
	}
	if body := p.act("/boards/main/-/restore", form("", ""), http.StatusSeeOther); !strings.Contains(body, "can be claimed") || state() != "UNCLAIMED" {
		t.Errorf("it is %s", state())
	}
	p.act("/boards/main/-/restore", form("", ""), http.StatusNotFound)
	claim, err = p.board.Claim(t.Context(), post, "worker-1", board.ClaimOptions{NoKeepAlive: true})
	testenv.Must(t, err)
	testenv.Must(t, claim.Trash(t.Context()))
	p.asAdmin("board.purge", map[string]string{"name": "main", "id": post.UUID}, url.Values{})
	p.get(page, http.StatusNotFound)
}

// At 10,000 postings a page takes at most 20 commands and 60 kB, and pages that follow at once take none. Texts stay texts, and every posting has a page.
func TestManyPostings(t *testing.T) {
	p := newPlant(t)
	const evil = `"'><script>alert(1)<b onclick=x>{{.}}`
	drafts := make([]board.Draft, 10_000)
	for i := range drafts {
		drafts[i] = board.Draft{Name: fmt.Sprintf("%s-%05d", evil+strings.Repeat("<", 900*(i%2)), i), Details: map[string]any{evil: strings.Repeat("ä", 500)}}
	}
	drafts[0].Details = map[string]any{"large": strings.Repeat("<b>", 100_000)}
	posted, err := p.board.PostBatch(t.Context(), drafts)
	testenv.Must(t, err)
	large := p.srv.Do(t, "HGET", p.prefix+":board:listings", posted[0].UUID)
	raw, err := large.ToString()
	testenv.Must(t, err)
	p.srv.Must(t, "HSET", p.prefix+":board:listings", "../../etc", raw) // a foreign writer chose its name
	p.srv.Must(t, "HDEL", p.prefix+":board:listings", posted[0].UUID)
	p.get("/boards", http.StatusOK) // the board is open
	for path, most := range map[string]int{"/boards": 4, "/boards/main": 4, "/boards/main?page=200": 4, "/boards/main?state=unclaimed&id=" + url.QueryEscape(evil): 4, below("/boards/main", "../../etc"): 1, "/boards/nowhere": 0} {
		p.sent()
		_, _, body := p.request(http.MethodGet, path, nil, nil)
		if sent := p.sent(); len(sent) > most {
			t.Errorf("%s takes %d commands: %v", path, len(sent), sent)
		}
		if len(body) > 60_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
		for _, bad := range []string{"<script>", "<b "} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	if body := p.get(below("/boards/main", "../../etc"), http.StatusOK); !strings.Contains(body, "cut: the JSON of this page has all of it") {
		t.Error("the details are not cut, or in silence")
	}
	var page Board
	p.json("/api/v1/boards/main?page=200", &page)
	if page.Pages != 200 || page.Total != len(drafts) || len(page.Postings) != perPage || !strings.HasSuffix(page.Postings[perPage-1].Name, "-09999") {
		t.Errorf("page %d of %d, %d postings of %d", page.Page, page.Pages, len(page.Postings), page.Total)
	}
}

// A board on ZooKeeper is shown and steered by the same pages; one that does not answer hides no other.
func TestZooKeeperBoard(t *testing.T) {
	zoo := testenv.ZooKeeper(t)
	open := func(ctx context.Context) (*board.Board, error) {
		return board.Open(ctx, "zookeeper://"+zoo.Addr+"/taskflow/jobs")
	}
	c, err := New(Options{Listen: "127.0.0.1:0", Log: quiet, Boards: []BoardOptions{{"zoo", "zoo.example", open}, {"gone", "gone.example", func(ctx context.Context) (*board.Board, error) {
		return board.Open(ctx, fmt.Sprintf("redis://127.0.0.1:%d", testenv.FreePort(t, "127.0.0.1")))
	}}}})
	testenv.Must(t, err)
	testenv.Must(t, c.listen.Close())
	t.Cleanup(func() {
		for _, b := range c.boards {
			b.end()
		}
	})
	web := c.Handler()
	ask := func(method, path string, form url.Values, want int) string {
		t.Helper()
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if web.ServeHTTP(w, r); w.Code != want {
			t.Fatalf("%s %s: %d, want %d: %s", method, path, w.Code, want, w.Body)
		}
		return w.Body.String()
	}
	b, err := open(t.Context())
	testenv.Must(t, err)
	defer b.Close()
	post, err := b.Post(t.Context(), board.Draft{Name: "resize", Priority: board.High, Details: map[string]any{"image": "cat.png"}})
	testenv.Must(t, err)
	claim, err := b.Claim(t.Context(), post, "worker-1", board.ClaimOptions{})
	testenv.Must(t, err)
	for path, wants := range map[string][]string{"/boards": {"zoo.example", "gone.example", "is down"}, "/boards/zoo": {"resize", claim.Owner(), "HIGH"}, below("/boards/zoo", post.Ref): {"cat.png", post.UUID, "/-/trash"}} {
		body := ask("GET", path, nil, http.StatusOK)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
	}
	ask("GET", "/boards/gone", nil, http.StatusServiceUnavailable)
	form := url.Values{"id": {post.Ref}, "owner": {claim.Owner()}, "sure": {"yes"}}
	ask("POST", "/boards/zoo/-/trash", form, http.StatusSeeOther)
	if body := ask("GET", "/boards/zoo?state=trashed", nil, http.StatusOK); !strings.Contains(body, "resize") {
		t.Error("it is not in the trash")
	}
	ask("POST", "/boards/zoo/-/restore", url.Values{"id": {post.UUID}}, http.StatusSeeOther)
	if body := ask("GET", "/boards/zoo?state=unclaimed", nil, http.StatusOK); !strings.Contains(body, "resize") {
		t.Error("it is not on the board again")
	}
}

// Ids that a path cannot hold, or that are names of other pages, stand in the query.
func TestBelow(t *testing.T) {
	for id, want := range map[string]string{"a b/c?d": "/workflows/a%20b%2Fc%3Fd", "..": "/workflows/-?id=..", "": "/workflows/-?id=", "-": "/workflows/-?id=-", "schedules": "/workflows/-?id=schedules"} {
		if got := below("/workflows", id); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
}
