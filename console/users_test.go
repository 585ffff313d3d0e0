package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/taktworks/takt/internal/openapi"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/users"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
)

// guarded is a plant whose console has users: one of each role, with a password and a token.
type guarded struct {
	*plant
	file     string
	tokens   map[string]string // by role
	later    atomic.Int64      // that the clock of the console is ahead
	log      logged
	password string
}

// logged keeps what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func newGuarded(t *testing.T, change ...func(*plant, *Options)) *guarded {
	t.Helper()
	g := &guarded{file: filepath.Join(t.TempDir(), "users"), tokens: make(map[string]string), password: "correct horse battery"}
	for _, role := range users.Roles {
		u, err := users.NewUser(role+"-1", role, map[bool]string{true: g.password}[role == "operator"])
		testenv.Must(t, err)
		testenv.Must(t, users.Add(g.file, u))
		program, token := users.NewToken(role, role, time.Now().Add(24*time.Hour))
		testenv.Must(t, users.Add(g.file, program))
		g.tokens[role] = token
	}
	g.plant = newPlant(t, func(p *plant, o *Options) {
		p.token, o.Users, o.now = g.tokens["admin"], g.file, func() time.Time { return time.Now().Add(time.Duration(g.later.Load())) }
		o.Log = slog.New(slog.NewTextHandler(&g.log, nil))
		for _, change := range change {
			change(p, o)
		}
	})
	g.token = ""
	t.Cleanup(func() {
		// whatever was done, no secret is in the log
		file, _ := os.ReadFile(g.file)
		for _, secret := range append(regexp.MustCompile(`\$2a\$\S+|[0-9a-f]{64}`).FindAllString(string(file), -1), g.password, g.tokens["admin"], g.tokens["viewer"], "takt=") {
			if g.log.has(secret) {
				t.Errorf("the log has %s", secret)
			}
		}
	})
	return g
}

// login posts the form, and returns the cookie of the session.
func (g *guarded) login(name, password, cookie string) (status int, session *http.Cookie, body string) {
	g.Helper()
	status, h, body := g.request(http.MethodPost, "/login", url.Values{"name": {name}, "password": {password}, "back": {"/orders?state=Running"}}, with("Cookie", cookie))
	for _, c := range (&http.Response{Header: h}).Cookies() {
		session = c
	}
	return status, session, body
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

var placeholders = regexp.MustCompile(`\{\w+(\.\.\.)?\}`)

// addressOf is an address of a pattern.
func addressOf(pattern string) string {
	return placeholders.ReplaceAllString(strings.NewReplacer("{$}", "", "{name}", "main").Replace(pattern), "JO-1")
}

// Every page and every action is for the roles that it names, as HTML and for programs; without a log-in all but the form is closed, also what there is not.
func TestRoles(t *testing.T) {
	g := newGuarded(t)
	try := func(method, path string, needs Role) {
		t.Helper()
		var form url.Values
		if method == http.MethodPost {
			form = url.Values{}
		}
		for _, role := range users.Roles {
			status, _, body := g.request(method, path, form, with("Authorization", "Bearer "+g.tokens[role]))
			if allowed := users.RoleOf(role) >= needs; (status == http.StatusForbidden) == allowed || status == http.StatusUnauthorized || status == http.StatusSeeOther && strings.Contains(body, "/login") {
				t.Errorf("%s %s as %s: %d, allowed %v", method, path, role, status, allowed)
			}
		}
		api := strings.HasPrefix(path, apiPath)
		for _, credentials := range []func(*http.Request){nil, with("Cookie", "takt="+users.Secret()), with("Cookie", "__Host-takt=x"), with("Authorization", "Bearer takt_"+users.Secret()), with("Authorization", "Basic YTpi"), with("X-Forwarded-User", "admin-1")} {
			status, h, _ := g.request(method, path, form, credentials)
			want := []any{http.StatusSeeOther, "/login?" + url.Values{"back": {map[bool]string{true: path, false: "/"}[method == http.MethodGet]}}.Encode(), ""}
			if api {
				want = []any{http.StatusUnauthorized, "", `Bearer realm="takt"`}
			}
			if diff := cmp.Diff(want, []any{status, h.Get("Location"), h.Get("WWW-Authenticate")}); diff != "" {
				t.Errorf("%s %s without a log-in:\n%s", method, path, diff)
			}
		}
	}
	for _, p := range pages() {
		try(http.MethodGet, addressOf(p.pattern), p.role)
		try(http.MethodGet, apiPath+addressOf(p.api()), p.role)
	}
	for _, a := range actions() {
		try(http.MethodPost, addressOf(a.pattern), a.role)
		try(http.MethodPost, apiPath+addressOf(a.pattern), a.role)
	}
	try(http.MethodGet, "/nowhere", Viewer)
	try(http.MethodGet, apiPath+"/openapi.json", Viewer)
	for path, want := range map[string]int{"/events": 401, "/login": 200, "/assets/takt.css": 200, "/assets/..%2forders": 404, "//orders": 307, "/assets/../orders": 307} {
		status, h, body := g.request(http.MethodGet, path, nil, nil)
		if status != want || strings.Contains(body, "redis.example") {
			t.Errorf("%s: %d to %s, want %d\n%s", path, status, h.Get("Location"), want, body)
		}
	}
	if body := g.get("/login", http.StatusOK); strings.Contains(body, "Redis") || strings.Contains(body, `href="/orders"`) {
		t.Error("the form tells of the plant")
	}
	for role, entry := range map[string]bool{"viewer": false, "operator": false, "admin": true} {
		_, _, body := g.request(http.MethodGet, "/", nil, with("Authorization", "Bearer "+g.tokens[role]))
		if strings.Contains(body, `href="/audit"`) != entry || !strings.Contains(body, "token:"+role+", "+role) || strings.Contains(body, "Log out") {
			t.Errorf("the header for %s is wrong:\n%.2500s", role, body)
		}
	}
}

// A session begins with the right password, in a cookie that no script and no other site gets, and ends by its button, with time, and with its user. A wrong name is answered as a wrong password.
func TestLogIn(t *testing.T) {
	g := newGuarded(t)
	wrong, cookie, body := g.login("operator-1", "wrong password", "")
	unknown, _, body2 := g.login("operator-2", "wrong password", "")
	body, _, _ = strings.Cut(body, "<footer>")
	body2, _, _ = strings.Cut(body2, "<footer>")
	if wrong != http.StatusForbidden || unknown != wrong || cookie != nil || strings.ReplaceAll(body2, "operator-2", "operator-1") != body || !strings.Contains(body, "Name or password is wrong") || strings.Contains(body, "wrong password") {
		t.Errorf("a wrong password: %d %v, a wrong name: %d\n%s", wrong, cookie, unknown, cmp.Diff(body, body2))
	}
	const fixed = "takt=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	status, first, _ := g.login("operator-1", g.password, fixed)
	if status != http.StatusSeeOther || first == nil || strings.HasPrefix(fixed, "takt="+first.Value) || len(first.Value) != 43 {
		t.Fatalf("log-in: %d %v", status, first)
	}
	if want := "takt=" + first.Value + "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"; first.String() != want {
		t.Errorf("cookie %s", first)
	}
	as := func(c *http.Cookie) func(*http.Request) { return with("Cookie", "takt="+c.Value) }
	in := func(how func(*http.Request)) bool {
		t.Helper()
		status, _, body := g.request(http.MethodGet, "/orders", nil, how)
		return status == http.StatusOK && strings.Contains(body, "operator-1, operator") && strings.Contains(body, "Log out")
	}
	if !in(as(first)) || in(with("Cookie", fixed)) {
		t.Error("the session is not that of its new cookie alone")
	}
	_, second, _ := g.login("operator-1", g.password, "takt="+first.Value)
	if in(as(first)) || !in(as(second)) {
		t.Error("a session outlives the log-in that replaces it")
	}
	if status, h, _ := g.request(http.MethodPost, "/logout", url.Values{}, as(second)); status != http.StatusSeeOther || !strings.Contains(h.Get("Set-Cookie"), "Max-Age=0") || in(as(second)) {
		t.Errorf("log-out: %d %v", status, h)
	}
	if status, _, _ := g.request(http.MethodPost, "/login", url.Values{"name": {"operator-1"}, "password": {g.password}}, with("Origin", "https://evil.example")); status != http.StatusForbidden {
		t.Errorf("log-in from another site: %d", status)
	}

	_, third, _ := g.login("operator-1", g.password, "")
	g.later.Store(int64(50 * time.Minute))
	script := func(r *http.Request) { as(third)(r); r.Header.Set("Sec-Fetch-Dest", "empty") }
	if !in(script) {
		t.Error("the session ended early")
	}
	g.later.Store(int64(61 * time.Minute))
	if in(as(third)) {
		t.Error("what a script asks for kept the session")
	}
	_, fourth, _ := g.login("operator-1", g.password, "")
	ctx, end := context.WithCancel(testenv.Within(t))
	defer end()
	events, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(g.console.URL(), "/")+"/events", nil)
	testenv.Must(t, err)
	as(fourth)(events)
	stream, err := g.client.Do(events)
	testenv.Must(t, err)
	defer stream.Body.Close()
	testenv.Must(t, users.Remove(g.file, "operator-1", false))
	if _, err := new(bytes.Buffer).ReadFrom(stream.Body); err != nil {
		t.Errorf("the stream of events of a user who was removed: %v", err)
	}
	if in(as(fourth)) {
		t.Error("a user who was removed has a session")
	}

	var audit AuditPage
	_, _, text := g.request(http.MethodGet, "/api/v1/audit", nil, with("Authorization", "Bearer "+g.tokens["admin"]))
	testenv.Must(t, json.Unmarshal([]byte(text), &audit))
	var said []string
	for _, e := range audit.Records {
		said = append(said, strings.Join([]string{e.User, e.Role, e.Address, e.Action, e.Outcome}, " "))
	}
	in1, out := "operator-1 operator 127.0.0.1 log-in logged in", "operator-1 operator 127.0.0.1 log-out logged out"
	if diff := cmp.Diff([]string{in1, in1, out, in1, in1, "  127.0.0.1 log-in refused: no such user", "operator-1 operator 127.0.0.1 log-in refused: wrong password"}, said); diff != "" {
		t.Error(diff)
	}
}

// After ten attempts from an address, or for a name, the next is answered 429 and judged no more, though its password may be right.
func TestLogInLimit(t *testing.T) {
	g := newGuarded(t)
	for range 10 {
		g.console.access.Limits.Take(g.console.access.Now(), "from 127.0.0.1")
	}
	status, h, body := g.request(http.MethodPost, "/login", url.Values{"name": {"operator-1"}, "password": {g.password}}, nil)
	if status != http.StatusTooManyRequests || h.Get("Retry-After") != "6" || !strings.Contains(body, "try again in 6 s") || h.Get("Set-Cookie") != "" {
		t.Errorf("%d, Retry-After %q, cookie %q", status, h.Get("Retry-After"), h.Get("Set-Cookie"))
	}
	g.later.Store(int64(6 * time.Second))
	if status, _, _ := g.login("operator-1", g.password, ""); status != http.StatusSeeOther {
		t.Errorf("6 s later: %d", status)
	}
}

// A proxy that is trusted names the user, and no one else does: neither another peer nor a browser through it. Without TLS no other peer is served.
func TestTrustedProxy(t *testing.T) {
	g := newGuarded(t, func(_ *plant, o *Options) {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32"), netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("127.0.0.1/32")}
	})
	var who Visitor
	h := g.console.guard(g.console.known(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = visitorOf(r.Context()) })))
	for name, c := range map[string]struct {
		peer   string
		tls    bool
		header http.Header
		status int
		want   Visitor
	}{
		"a user":                   {"10.0.0.5:1", false, http.Header{"X-Forwarded-User": {"operator-1"}, "X-Forwarded-For": {"192.0.2.7"}}, 200, Visitor{Name: "operator-1", Role: Operator, Address: "192.0.2.7"}},
		"IPv6, over TLS":           {"[fd00::1]:1", true, http.Header{"X-Forwarded-User": {"viewer-1"}}, 200, Visitor{Name: "viewer-1", Role: Viewer, Address: "fd00::1"}},
		"an address with a port":   {"10.0.0.5:1", false, http.Header{"X-Forwarded-User": {"viewer-1"}, "X-Forwarded-For": {"192.0.2.7:51234"}}, 200, Visitor{Name: "viewer-1", Role: Viewer, Address: "192.0.2.7"}},
		"an address made up":       {"10.0.0.5:1", false, http.Header{"X-Forwarded-User": {"viewer-1"}, "X-Forwarded-For": {"198.51.100.1, 192.0.2.7, 10.0.0.5"}}, 200, Visitor{Name: "viewer-1", Role: Viewer, Address: "192.0.2.7"}},
		"no user of the file":      {"10.0.0.5:1", false, http.Header{"X-Forwarded-User": {"root"}}, 403, Visitor{}},
		"a token is no user":       {"10.0.0.5:1", false, http.Header{"X-Forwarded-User": {"admin"}}, 403, Visitor{}},
		"two users":                {"10.0.0.5:1", false, http.Header{"X-Forwarded-User": {"admin-1", "viewer-1"}}, 400, Visitor{}},
		"no user":                  {"10.0.0.5:1", false, nil, 303, Visitor{}},
		"a token through it":       {"10.0.0.5:1", false, http.Header{"Authorization": {"Bearer " + g.tokens["viewer"]}}, 200, Visitor{Name: "token:viewer", Role: Viewer, Address: "10.0.0.5"}},
		"another peer":             {"10.0.0.6:1", false, http.Header{"X-Forwarded-User": {"admin-1"}}, 403, Visitor{}},
		"another peer, forwarded":  {"10.0.0.6:1", false, http.Header{"X-Forwarded-User": {"admin-1"}, "X-Forwarded-For": {"10.0.0.5"}}, 403, Visitor{}},
		"another peer, a token":    {"10.0.0.6:1", false, http.Header{"Authorization": {"Bearer " + g.tokens["admin"]}}, 403, Visitor{}},
		"another peer over TLS":    {"10.0.0.6:1", true, http.Header{"X-Forwarded-User": {"admin-1"}}, 303, Visitor{}},
		"another, token, over TLS": {"10.0.0.6:1", true, http.Header{"Authorization": {"Bearer " + g.tokens["admin"]}, "X-Forwarded-User": {"viewer-1"}}, 200, Visitor{Name: "token:admin", Role: Admin, Address: "10.0.0.6"}},
	} {
		who = Visitor{}
		r := httptest.NewRequest(http.MethodGet, "/orders", nil)
		if r.RemoteAddr, r.Host = c.peer, "plant.example"; c.header != nil {
			r.Header = c.header
		}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || who != c.want {
			t.Errorf("%s: %d %+v, want %d %+v\n%.300s", name, w.Code, who, c.status, c.want, w.Body)
		}
	}
	_, cookie, _ := g.login("operator-1", g.password, "")
	if cookie == nil || cookie.Name != "__Host-takt" || !cookie.Secure {
		t.Errorf("the cookie of a log-in through a proxy: %v", cookie)
	}
}

// Options that would let others in without TLS or without users are refused, with flag, value, rule and next step.
func TestAccessOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	testenv.Must(t, os.WriteFile(file, []byte("user anna boss -"), 0o600))
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32")}
	for want, o := range map[string]Options{
		`listen is "0.0.0.0:0": must be of this machine (127.0.0.1, [::1] or localhost) without TLS: give --tls-cert FILE`: {Listen: "0.0.0.0:0", Users: file},
		`users is "": must name a file for a console that other machines reach`:                                            {Listen: "0.0.0.0:0", TLSCert: "c", TLSKey: "k"},
		`users is "": must name a file for a console that other machines reach, by itself`:                                 {Listen: "127.0.0.1:0", TrustedProxies: proxies},
		`tls-key is "": must be given with --tls-cert`:                                                                     {Listen: "127.0.0.1:0", TLSCert: "c"},
		`tls-key is "k": must be given with --tls-cert`:                                                                    {Listen: "127.0.0.1:0", TLSKey: "k"},
		`users is "` + file + `": file of users ` + file + `, line 1: role "boss": must be viewer, operator, admin`:        {Listen: "127.0.0.1:0", Users: file},
		`users is "` + file + `2": file of users ` + file + `2: cannot be read`:                                            {Listen: "127.0.0.1:0", Users: file + "2"},
		`proxy-user-header is "X-User": is read from a trusted proxy alone: give --trusted-proxy`:                          {Listen: "127.0.0.1:0", ProxyUserHeader: "X-User"},
		`proxy-user-header is "a b": must be the name of a header`:                                                         {Listen: "127.0.0.1:0", ProxyUserHeader: "a b"},
		`host is "http://plant.example": must be a name as a browser shows it`:                                             {Listen: "127.0.0.1:0", Hosts: []string{"http://plant.example"}},
		`tls-cert is "c": open c: no such file or directory; --tls-cert and --tls-key must name PEM files`:                 {Listen: "127.0.0.1:0", TLSCert: "c", TLSKey: "k"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// By TLS 1.2 and later the console is known by the names of its certificate, and its cookie is bound to TLS. A certificate that is renewed is used without a restart; a broken one is not.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	files := [2]string{filepath.Join(dir, "cert"), filepath.Join(dir, "key")}
	write := func(cert, key []byte) {
		t.Helper()
		testenv.Must(t, os.WriteFile(files[0], cert, 0o600))
		testenv.Must(t, os.WriteFile(files[1], key, 0o600))
	}
	roots, cert1, key1 := testenv.SelfSigned(t, "plant-1.example")
	_, cert2, key2 := testenv.SelfSigned(t, "plant-2.example")
	roots.AppendCertsFromPEM(cert2)
	write(cert1, key1)
	client := func(most uint16) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MaxVersion: most}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	g := newGuarded(t, func(p *plant, o *Options) {
		p.client, o.TLSCert, o.TLSKey = client(0), files[0], files[1]
	})
	asked := func(host string) [2]string {
		t.Helper()
		status, h, _ := g.request(http.MethodGet, "/login", nil, func(r *http.Request) { r.Host = host })
		return [2]string{fmt.Sprint(status), h.Get("Strict-Transport-Security")}
	}
	for host, want := range map[string][2]string{"127.0.0.1": {"200", ""}, "plant-1.example": {"200", "max-age=31536000"}, "plant-2.example": {"421", "max-age=31536000"}} {
		if got := asked(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	_, cookie, _ := g.login("operator-1", g.password, "")
	if cookie == nil || cookie.Name != "__Host-takt" || !cookie.Secure || !cookie.HttpOnly || cookie.Domain != "" {
		t.Errorf("cookie %v", cookie)
	}
	if status, _, _ := g.request(http.MethodGet, "/orders", nil, with("Cookie", "takt="+cookie.Value)); status != http.StatusSeeOther {
		t.Error("the session is taken from a cookie that a server without TLS may have set")
	}
	if answer, err := client(tls.VersionTLS11).Get(g.console.URL()); err == nil {
		answer.Body.Close()
		t.Error("TLS 1.1 is spoken")
	}
	write([]byte("broken"), key1)
	testenv.Eventually(t, "the broken certificate is in the log", func() bool { return asked("plant-1.example")[0] == "200" && g.log.has("mend the files") })
	write(cert2, key2)
	testenv.Eventually(t, "the new certificate is used", func() bool { return asked("plant-2.example")[0] == "200" })
}

// What users do is recorded, the newest first, with who, what, to what, why and the outcome; by user, and paged, in few commands. It is for admins, and where nobody logs in for everyone.
func TestAudit(t *testing.T) {
	g := newGuarded(t)
	g.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	testenv.Eventually(t, "it is listed", func() bool { g.token = g.tokens["admin"]; return g.overview().Total == 1 })
	post := func(role, method string, form url.Values) {
		t.Helper()
		g.request(http.MethodPost, "/api/v1/orders/JO-1/"+method, form, with("Authorization", "Bearer "+g.tokens[role]))
	}
	post("viewer", "pause", url.Values{})
	post("operator", "pause", url.Values{})
	post("admin", "abort", url.Values{"sure": {"yes"}, "comment": {"<b>smoke</b>" + strings.Repeat("é", 500)}})
	var all, one AuditPage
	g.json("/api/v1/audit", &all)
	g.json("/api/v1/audit?user=token:operator", &one)
	e := all.Records[0]
	if len(all.Records) != 2 || len(one.Records) != 1 || one.Records[0] != all.Records[1] || e.User != "token:admin" || e.Role != "admin" || e.Address != "127.0.0.1" || e.Action != "job.method" || e.Object != "JO-1" ||
		!strings.HasPrefix(e.Reason, "<b>smoke") || len(e.Reason) > 510 || e.Outcome != "Abort was carried out." || time.Since(e.Time).Abs() > time.Minute {
		t.Errorf("%+v\n%+v", all.Records, one.Records)
	}
	if body := g.get("/audit", http.StatusOK); strings.Contains(body, "<b>") || !strings.Contains(body, "&lt;b&gt;smoke") || !strings.Contains(body, "data-events=\"/events?page=%2Faudit") {
		t.Error("the page does not show the reason as a text, or does not follow")
	}
	evil := strings.Repeat("<script>\"ä", 60)
	for i := range 2500 {
		testenv.Must(t, g.db.Audit(t.Context(), jobstore.AuditEntry{User: fmt.Sprint("user-", i%1250), Action: "task.retry", Object: evil, Reason: evil, Outcome: evil}))
	}
	seen := make(map[string]bool)
	for next, pages := "", 0; pages < 51; pages++ {
		var page AuditPage
		g.json("/api/v1/audit?before="+next, &page)
		for _, e := range page.Records {
			seen[e.ID] = true
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(seen) != 2502 {
		t.Errorf("%d entries on all pages", len(seen))
	}
	for path, most := range map[string]int{"/audit": 1, "/audit?user=user-7": 3, "/audit?user=" + url.QueryEscape(evil): 3} {
		g.sent()
		body := g.get(path, http.StatusOK)
		if sent := g.sent(); len(sent) > most {
			t.Errorf("%s takes %v", path, sent)
		}
		if strings.Contains(body, "<script>\"") || len(body) > 60_000 {
			t.Errorf("%s: %d bytes, or with a script", path, len(body))
		}
	}
	g.json("/api/v1/audit?user=user-7", &one)
	if len(one.Records) != 2 || one.Next != "" {
		t.Errorf("%d entries of one user", len(one.Records))
	}
}

// What Redis does not let be recorded is done all the same, and every page says so; a deed that is recorded takes the notice away.
func TestAuditDenied(t *testing.T) {
	g := newGuarded(t, func(p *plant, o *Options) {
		p.srv.Must(t, strings.Fields("ACL SETUSER looker reset on >secret "+redis.Rights(p.prefix, true))...)
		o.Open = func(ctx context.Context) (*jobstore.Store, error) {
			return jobstore.Open(ctx, jobstore.Options{URL: p.redis.URL, Username: "looker", Password: "secret", Prefix: p.prefix, Instance: "console", Looks: true, Log: quiet})
		}
	})
	g.token = g.tokens["admin"]
	g.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	testenv.Eventually(t, "it is listed", func() bool { return g.overview().Total == 1 })
	g.get("/orders/JO-1", http.StatusOK) // rights to look are enough
	const notice = "What is done here is not recorded: Redis denies it. Give its user of the console the right (+xadd ~PREFIX:console:audit)"
	for _, denied := range []bool{true, false} {
		if !denied {
			g.srv.Must(t, "ACL", "SETUSER", "looker", "(+xadd ~"+g.prefix+":console:audit)")
		}
		if status, _, body := g.request(http.MethodPost, "/api/v1/orders/JO-1/pause", url.Values{}, nil); status != http.StatusOK {
			t.Errorf("denied %v: %d %s", denied, status, body)
		}
		if got := strings.Contains(html.UnescapeString(g.get("/orders", http.StatusOK)), notice); got != denied {
			t.Errorf("denied %v: the notice is there: %v", denied, got)
		}
	}
}

// The description of the interface has every page and action, and the real answers fit it.
func TestOpenAPI(t *testing.T) {
	p := newPlant(t)
	p.run("cell-07", &isa95.JobOrder{JobOrderID: "JO-1"})
	testenv.Eventually(t, "it is listed", func() bool { return p.overview().Total == 1 })
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
	}
	text := p.get("/api/v1/openapi.json", http.StatusOK)
	testenv.Must(t, json.Unmarshal([]byte(text), &doc))
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	testenv.Must(t, err)
	compiler := jsonschema.NewCompiler()
	testenv.Must(t, compiler.AddResource("openapi.json", schema))
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	try := func(method, pattern string, form url.Values) {
		t.Helper()
		pattern = openapi.Path(apiPath + pattern)
		status, _, body := p.request(strings.ToUpper(method), strings.Replace(addressOf(pattern), "/{method}", "/pause", 1), form, nil)
		response := "default"
		if status == http.StatusOK {
			response = "200"
		}
		answer, err := compiler.Compile("openapi.json#/paths/" + escape.Replace(pattern) + "/" + method + "/responses/" + response + "/content/application~1json/schema")
		testenv.Must(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		testenv.Must(t, err)
		if err := answer.Validate(value); err != nil {
			t.Errorf("%s %s: %v", method, pattern, err)
		}
	}
	for _, page := range pages() {
		try("get", page.api(), nil)
	}
	for _, action := range actions() {
		try("post", action.pattern, url.Values{})
	}
	p.json("/api/v1/orders/JO-1", &OneOrder{})
	if wrong, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"total":"many"}`)); err == nil {
		orders, err := compiler.Compile("openapi.json#/components/schemas/Orders")
		if testenv.Must(t, err); orders.Validate(wrong) == nil {
			t.Error("the description takes anything")
		}
	}
}
