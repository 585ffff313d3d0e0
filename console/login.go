package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/users"
	"github.com/taktworks/takt/jobstore"
)

// access is who may use the console, and who does.
type access struct {
	users   *users.Directory // nil: all who reach this machine, as operators
	proxies []netip.Prefix
	header  string // in which they name the user
	now     func() time.Time

	sessions users.Sessions
	limits   users.Limiter
	judge    users.Judge
}

// OptionError is an option that a console does not take, by the name of its flag: listen, tls-cert, tls-key, users or trusted-proxy. In Rule flags begin with --.
type OptionError struct{ Option, Value, Rule string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("console: %s is %q: %s", e.Option, e.Value, e.Rule)
}

// openAccess checks who may reach the console that listens on a host.
func (c *Console) openAccess(host, port string) error {
	o := &c.o
	c.access = access{proxies: o.TrustedProxies, header: o.ProxyUserHeader, now: o.now, judge: make(users.Judge, 2)}
	if o.now == nil {
		c.access.now = time.Now
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return &OptionError{"tls-key", o.TLSKey, "must be given with --tls-cert, and that with it: PEM files of the certificate and its key"}
	}
	open := !loopback(host)
	if open && o.TLSCert == "" && len(o.TrustedProxies) == 0 {
		return &OptionError{"listen", o.Listen, fmt.Sprintf("must be of this machine (127.0.0.1, [::1] or localhost) without TLS: give --tls-cert FILE, --tls-key FILE and --users FILE, "+
			"or --trusted-proxy CIDR of a proxy that has TLS, and --users FILE; or listen on 127.0.0.1:%s and forward that port: ssh -L %s:127.0.0.1:%s HOST", port, port, port)}
	}
	if o.Users == "" && (open || len(o.TrustedProxies) > 0) {
		return &OptionError{"users", "", "must name a file for a console that others reach, by itself or through a proxy: takt console user add NAME makes it"}
	}
	if o.Users != "" {
		var err error
		if c.access.users, err = users.Open(o.Users, o.Log, c.access.now()); err != nil {
			return &OptionError{"users", o.Users, err.Error()}
		}
	}
	if o.TLSCert != "" {
		var err error
		if c.certificate, err = openCertificate(o.TLSCert, o.TLSKey, o.Log); err != nil {
			return &OptionError{"tls-cert", o.TLSCert, err.Error() + "; --tls-cert and --tls-key must name PEM files of a certificate and its key"}
		}
	}
	return nil
}

// origin is where a request comes from: the address of the visitor, and whether a trusted proxy sent it.
func (a *access) origin(r *http.Request) (address string, proxied bool) {
	trusted := func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && slices.ContainsFunc(a.proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	}
	address, _, _ = net.SplitHostPort(r.RemoteAddr)
	if !trusted(address) {
		return address, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) { // the last that no trusted proxy wrote is what one of them saw
		if ip, err := netip.ParseAddr(strings.TrimSpace(hop)); err == nil {
			if address = ip.String(); !trusted(address) {
				break
			}
		} else {
			break
		}
	}
	return address, true
}

// errLogIn says that the visitor is not known yet.
var errLogIn = &problem{http.StatusUnauthorized, "Log in", "This console knows its users: log in, or send Authorization: Bearer TOKEN."}

// visitor says who asks. Without users everyone who reaches a console of this machine is an operator.
func (c *Console) visitor(r *http.Request) (Visitor, error) {
	a := &c.access
	address, proxied := a.origin(r)
	if a.users == nil {
		return Visitor{Role: Operator, Address: address}, nil
	}
	now := a.now()
	if names := r.Header.Values(a.header); proxied && len(names) > 0 {
		u, ok := a.users.User(names[0], now)
		switch {
		case len(names) > 1:
			return Visitor{}, &problem{http.StatusBadRequest, "Refused", "The proxy sent " + a.header + " more than once: it must replace what a browser sends."}
		case !ok:
			return Visitor{}, &problem{http.StatusForbidden, "Not a user", "The proxy knows you, and the file of users does not. An administrator adds you: takt console user add."}
		}
		return Visitor{Name: u.Name, Role: roleOf(u.Role), Address: address}, nil
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if u, ok := a.users.Token(token, now); ok {
			return Visitor{Name: "token:" + u.Name, Role: roleOf(u.Role), Address: address}, nil
		}
		return Visitor{}, errLogIn
	}
	cookie, err := r.Cookie(cookieName(r, proxied))
	if err != nil {
		return Visitor{}, errLogIn
	}
	u, ok := a.sessions.Find(cookie.Value, now, r.Header.Get("Sec-Fetch-Dest") != "empty") // what a script asks for is no sign of a person
	if !ok {
		return Visitor{}, errLogIn
	}
	if is, ok := a.users.User(u.Name, now); !ok || is != u {
		a.sessions.End(cookie.Value)
		return Visitor{}, errLogIn
	}
	return Visitor{u.Name, roleOf(u.Role), address, true}, nil
}

// known lets through who may use the console.
func (c *Console) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := c.visitor(r)
		program := strings.HasPrefix(r.URL.Path, apiPath) || r.URL.Path == "/events"
		switch {
		case errors.Is(err, errLogIn) && program:
			w.Header().Set("WWW-Authenticate", `Bearer realm="takt"`)
			c.fail(w, r, err)
			return
		case errors.Is(err, errLogIn):
			back := "/"
			if r.Method == http.MethodGet {
				back = r.URL.RequestURI()
			}
			http.Redirect(w, r, "/login?"+url.Values{"back": {back}}.Encode(), http.StatusSeeOther)
			return
		case err != nil:
			c.fail(w, r, err)
			return
		}
		ctx := context.WithValue(r.Context(), visitorKey{}, who)
		if r.URL.Path == "/events" && c.access.users != nil {
			var end context.CancelFunc
			ctx, end = context.WithCancel(ctx)
			defer end()
			go c.until(ctx, end, r, who)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// until ends a stream of events with the session, token or user that asked for it.
func (c *Console) until(ctx context.Context, end context.CancelFunc, r *http.Request, who Visitor) {
	r = r.Clone(ctx)
	r.Header.Set("Sec-Fetch-Dest", "empty") // a stream is no sign of a person
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if now, err := c.visitor(r); err != nil || now != who {
				end()
				return
			}
		}
	}
}

// cookieName is that of the session. Over TLS no other server of the same name can set it.
func cookieName(r *http.Request, proxied bool) string {
	if r.TLS != nil || proxied {
		return "__Host-takt"
	}
	return "takt"
}

func setCookie(w http.ResponseWriter, r *http.Request, proxied bool, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r, proxied), Value: value, Path: "/", MaxAge: int(age.Seconds()), HttpOnly: true, Secure: r.TLS != nil || proxied, SameSite: http.SameSiteStrictMode,
	})
}

// LoginPage asks for name and password.
type LoginPage struct {
	*Frame
	Back  string
	Name  string
	Wrong bool
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request, status int, name string, wrong bool) {
	p := &LoginPage{Frame: c.newFrame("Log in", ""), Back: localPath(r.FormValue("back")), Name: name, Wrong: wrong}
	if len(name) > 64 {
		p.Name = shorten(name, 64)
	}
	p.Servers, p.Notice = nil, ""
	c.render(w, status, "login", p)
}

// askLogin shows the form to those who need it.
func (c *Console) askLogin(w http.ResponseWriter, r *http.Request) {
	if _, err := c.visitor(r); err == nil {
		http.Redirect(w, r, localPath(r.FormValue("back")), http.StatusSeeOther)
		return
	}
	c.loginPage(w, r, http.StatusOK, "", false)
}

// login begins a session. Its answer, and how long it takes, do not tell a wrong password from a name that there is not.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	a := &c.access
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, &problem{http.StatusBadRequest, "The form cannot be read", err.Error()})
		return
	}
	if a.users == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	name, now := r.PostForm.Get("name"), a.now()
	address, proxied := a.origin(r)
	give, wait := a.limits.Take(now, "from "+network(address), "name "+users.Hash(name))
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		c.fail(w, r, &problem{http.StatusTooManyRequests, "Too many attempts", fmt.Sprintf("Too many log-ins failed from this address or for this name: try again in %d s.", int(math.Ceil(wait.Seconds())))})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	u, exists := a.users.User(name, now)
	right, err := a.judge.Password(ctx, u, r.PostForm.Get("password"))
	if err != nil {
		give()
		c.fail(w, r, &problem{http.StatusServiceUnavailable, "Too many log-ins at once", "The console judges passwords two at a time and could not yet: try again."})
		return
	}
	entry := jobstore.AuditEntry{User: u.Name, Role: u.Role, Address: address, Action: "log-in", Outcome: "logged in"}
	if !right {
		entry.Outcome = "refused: wrong password"
		if !exists {
			entry.User, entry.Outcome = "", "refused: no such user" // the name is not kept: it may be a password
		}
		if _, wait := a.limits.Take(now, "record"); wait == 0 {
			c.audit(ctx, entry)
		}
		c.loginPage(w, r, http.StatusForbidden, name, true)
		return
	}
	give()
	if old, err := r.Cookie(cookieName(r, proxied)); err == nil {
		a.sessions.End(old.Value)
	}
	setCookie(w, r, proxied, a.sessions.Begin(u, now), users.SessionLasts)
	c.audit(ctx, entry)
	http.Redirect(w, r, localPath(r.PostForm.Get("back")), http.StatusSeeOther)
}

// logout ends the session of the browser.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	_, proxied := c.access.origin(r)
	if cookie, err := r.Cookie(cookieName(r, proxied)); err == nil {
		if who, err := c.visitor(r); err == nil {
			c.audit(r.Context(), jobstore.AuditEntry{User: who.Name, Role: who.Role.String(), Address: who.Address, Action: "log-out", Outcome: "logged out"})
		}
		c.access.sessions.End(cookie.Value)
		setCookie(w, r, proxied, "", -time.Second)
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// network is what one person has of addresses: an IPv4 address, or 64 bits of IPv6.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	p, _ := ip.WithZone("").Prefix(64) // 64 bits there are
	return p.String()
}
