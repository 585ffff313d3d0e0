package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
)

// pollEvery is how long after one look the next one begins.
const pollEvery = time.Second

// pollable are the pages that browsers follow and that nothing announces, as a server that answers with what tells two contents of a page apart.
func (c *Console) pollable() http.Handler {
	mux := http.NewServeMux()
	for _, page := range pages() {
		mux.HandleFunc("GET "+page.pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), readWithin)
			defer cancel()
			data, err := c.read(ctx, page, r)
			if err != nil {
				_, _ = w.Write([]byte(sum("error: " + err.Error()))) // of a recorder
				return
			}
			_, _ = w.Write([]byte(digest(data)))
		})
	}
	return mux
}

// digest tells two contents of a page apart.
func digest(data shown) string {
	f := data.frame()
	now := f.Now
	f.Now = time.Time{}
	text, _ := json.Marshal(data) // what a page shows can be encoded
	f.Now = now
	return sum(string(text))
}

func sum(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:12])
}

// recorder keeps the body of an answer.
type recorder struct{ bytes.Buffer }

func (*recorder) Header() http.Header { return make(http.Header) }
func (*recorder) WriteHeader(int)     {}

// poll follows a page, by its path and query: its content is what the page answers as one of pollable.
func (c *Console) poll(page string) func(context.Context, *follow) {
	return func(ctx context.Context, f *follow) {
		u, err := url.ParseRequestURI(page)
		if err != nil {
			return // the browser asked for no page of this console
		}
		for ctx.Err() == nil {
			answer := &recorder{}
			c.polled.ServeHTTP(answer, (&http.Request{Method: http.MethodGet, URL: u, Host: "localhost", Header: make(http.Header)}).WithContext(ctx))
			if ctx.Err() == nil {
				f.set(answer.String())
			}
			lifecycle.Sleep(ctx, pollEvery)
		}
	}
}
