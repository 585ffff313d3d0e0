package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

// polls look at the pages that browsers follow and that nothing announces, each once a second however many browsers show it.
type polls struct {
	pages http.Handler // answers with what tells two contents of a page apart

	mu   sync.Mutex
	of   map[string]*poll
	wait sync.WaitGroup
}

type poll struct {
	stop    context.CancelFunc
	readers int // guarded by polls

	mu      sync.Mutex
	content string // "" = not known yet
	moved   chan struct{}
}

// pollEvery is how long after one look the next one begins.
const pollEvery = time.Second

func (p *polls) start(c *Console) {
	mux := http.NewServeMux()
	for _, page := range pages() {
		mux.HandleFunc("GET "+page.pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), readWithin)
			defer cancel()
			data, err := c.read(ctx, page, r)
			if err != nil {
				_, _ = w.Write([]byte("error: " + err.Error())) // of a recorder
				return
			}
			_, _ = w.Write([]byte(digest(data)))
		})
	}
	p.pages, p.of = mux, make(map[string]*poll)
}

// digest tells two contents of a page apart.
func digest(data shown) string {
	f := data.frame()
	now := f.Now
	f.Now = time.Time{}
	hash := sha256.New()
	_ = json.NewEncoder(hash).Encode(data) // what a page shows can be encoded
	f.Now = now
	return hex.EncodeToString(hash.Sum(nil)[:12])
}

// recorder keeps the body of an answer.
type recorder struct{ bytes.Buffer }

func (*recorder) Header() http.Header { return make(http.Header) }
func (*recorder) WriteHeader(int)     {}

// join follows a page, by its path and query, as the visitor of ctx.
func (p *polls) join(ctx context.Context, page string) (*poll, func()) {
	key := visitorOf(ctx).Role.String() + " " + page
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.of[key]
	if one == nil {
		one = &poll{moved: make(chan struct{})}
		ctx, one.stop = context.WithCancel(context.WithoutCancel(ctx))
		p.of[key] = one
		p.wait.Go(func() { one.run(ctx, p.pages, page) })
	}
	one.readers++
	return one, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if one.readers--; one.readers == 0 {
			one.stop()
			delete(p.of, key)
		}
	}
}

func (p *poll) now() (content string, moved <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.content, p.moved
}

func (p *poll) run(ctx context.Context, pages http.Handler, page string) {
	u, err := url.ParseRequestURI(page)
	if err != nil {
		return // the browser asked for no page of this console
	}
	for ctx.Err() == nil {
		answer := &recorder{}
		pages.ServeHTTP(answer, (&http.Request{Method: http.MethodGet, URL: u, Host: "localhost", Header: make(http.Header)}).WithContext(ctx))
		p.mu.Lock()
		if content := answer.String(); content != p.content && ctx.Err() == nil {
			p.content = content
			close(p.moved)
			p.moved = make(chan struct{})
		}
		p.mu.Unlock()
		lifecycle.Sleep(ctx, pollEvery)
	}
}
