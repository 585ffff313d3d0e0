package console

import (
	"embed"
	"net/http"
	"path"

	"github.com/taktworks/takt/chart"
)

// policy lets a page use what this server sends, and nothing else: no inline script or style, no frame around it, no text that becomes markup unchecked.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

//go:embed assets
var assets embed.FS

// Handler serves the pages without listening, for tests and for Run.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+apiPath+"/openapi.json", c.openAPI)
	mux.HandleFunc("GET /events", c.events)
	for _, p := range pages() {
		mux.Handle("GET "+p.pattern, c.serve(p, false))
		mux.Handle("GET "+apiPath+p.api(), c.serve(p, true))
	}
	for _, a := range actions() {
		mux.Handle("POST "+a.pattern, c.act(a, false))
		mux.Handle("POST "+apiPath+a.pattern, c.act(a, true))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, &problem{http.StatusNotFound, "No such page", "The console has no page at this address. Choose one from the navigation."})
	})
	open := http.NewServeMux() // to those who have not logged in
	open.HandleFunc("GET /assets/{name}", c.asset)
	open.HandleFunc("GET /login", c.askLogin)
	open.HandleFunc("POST /login", c.login)
	open.HandleFunc("POST /logout", c.logout)
	open.Handle("/", c.known(mux))
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, &problem{http.StatusForbidden, "Refused", "Another site asked for this change, so nothing was done. Open the console itself and use its buttons."})
	}))
	return c.guard(foreign.Handler(open))
}

// asset answers with a file of the binary.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, err := assets.ReadFile("assets/" + name)
	if name == "chart.css" {
		text, err = []byte(chart.PageStyle), nil
	}
	if err != nil {
		c.fail(w, r, &problem{http.StatusNotFound, "No such file", "The console has no file of this name."})
		return
	}
	w.Header().Set("Content-Type", map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)])
	_, _ = w.Write(text) // the browser has gone
}

// guard sets the headers of every answer and refuses names that this server does not have, which a page of another site may have been given for it.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		host := hostName(r.Host)
		if r.TLS != nil && !loopback(host) { // for localhost it would forbid plain HTTP to all other servers of this machine
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !loopback(host) && !c.hosts[host] && !c.certificate.Names(host) {
			http.Error(w, "421: this server is not known by that name; use localhost, or add the name: takt console --host NAME", http.StatusMisdirectedRequest)
			return
		}
		if _, proxied := c.access.Origin(r); len(c.access.Proxies) > 0 && r.TLS == nil && !proxied {
			http.Error(w, "403: only the proxies of --trusted-proxy may use this address without TLS; open the console at the address of the proxy", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
