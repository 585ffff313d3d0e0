package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/taktworks/takt/internal/filewatch"
	"github.com/taktworks/takt/internal/users"
	"github.com/taktworks/takt/jobstore"
)

// OptionError is an option that a console does not take, by the name of its flag: listen, host, tls-cert, tls-key, users, trusted-proxy or proxy-user-header. In Rule flags begin with --.
type OptionError struct{ Option, Value, Rule string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("console: %s is %q: %s", e.Option, e.Value, e.Rule)
}

// defaultUserHeader is that of most proxies.
const defaultUserHeader = "X-Forwarded-User"

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// openAccess checks who may reach the console that listens on a host.
func (c *Console) openAccess(host, port string) error {
	o := &c.o
	c.access = users.NewAccess(o.now)
	c.access.Proxies, c.access.Header = o.TrustedProxies, o.ProxyUserHeader
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return &OptionError{"tls-key", o.TLSKey, "must be given with --tls-cert, and that with it: PEM files of the certificate and its key"}
	}
	open := !loopback(host)
	if open && o.TLSCert == "" && len(o.TrustedProxies) == 0 {
		return &OptionError{"listen", o.Listen, fmt.Sprintf("must be of this machine (127.0.0.1, [::1] or localhost) without TLS: give --tls-cert FILE, --tls-key FILE and --users FILE, "+
			"or --trusted-proxy CIDR of a proxy that has TLS, and --users FILE; or listen on 127.0.0.1:%s and forward that port: ssh -L %s:127.0.0.1:%s HOST", port, port, port)}
	}
	if o.Users == "" && (open || len(o.TrustedProxies) > 0) {
		return &OptionError{"users", "", "must name a file for a console that other machines reach, by itself or through a proxy: takt console user add NAME makes it"}
	}
	if !headerName.MatchString(o.ProxyUserHeader) {
		return &OptionError{"proxy-user-header", o.ProxyUserHeader, "must be the name of a header: letters, digits and hyphens"}
	}
	if o.ProxyUserHeader != defaultUserHeader && len(o.TrustedProxies) == 0 {
		return &OptionError{"proxy-user-header", o.ProxyUserHeader, "is read from a trusted proxy alone: give --trusted-proxy CIDR, too"}
	}
	for _, name := range o.Hosts {
		if strings.ContainsAny(name, "/ @") {
			return &OptionError{"host", name, "must be a name as a browser shows it, without http:// and path, for example console.example"}
		}
	}
	if o.Users != "" {
		var err error
		if c.access.Directory, err = users.Open(o.Users, o.Log, c.access.Now()); err != nil {
			return &OptionError{"users", o.Users, err.Error()}
		}
	}
	if o.TLSCert != "" {
		var err error
		if c.certificate, err = filewatch.OpenCertificate(o.TLSCert, o.TLSKey, o.Log); err != nil {
			return &OptionError{"tls-cert", o.TLSCert, err.Error() + "; --tls-cert and --tls-key must name PEM files of a certificate and its key"}
		}
	}
	return nil
}

// errLogIn says that the visitor is not known yet.
var errLogIn = &problem{http.StatusUnauthorized, "Log in", "This console knows its users: log in, or send Authorization: Bearer TOKEN."}

// visitor is the visitor who sends a request. Without users each visitor from this machine is an operator.
func (c *Console) visitor(r *http.Request) (Visitor, error) {
	who, err := c.access.Visitor(r)
	switch {
	case errors.Is(err, users.ErrLogIn):
		return who, errLogIn
	case errors.Is(err, users.ErrNamedTwice):
		return who, &problem{http.StatusBadRequest, "Refused", "The proxy sent " + c.access.Header + " more than once: it must replace what a browser sends."}
	case errors.Is(err, users.ErrNoUser):
		return who, &problem{http.StatusForbidden, "Not a user", "The user that the proxy names is not in the file of users. An administrator adds it: takt console user add NAME."}
	}
	return who, err
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
		r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, who))
		if r.URL.Path == "/events" {
			ctx, end := c.access.While(r, who)
			defer end()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
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
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, &problem{http.StatusBadRequest, "The form cannot be read", err.Error()})
		return
	}
	if c.access.Directory == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	name := r.PostForm.Get("name")
	u, err := c.access.LogIn(ctx, w, r, name, r.PostForm.Get("password"))
	address, _ := c.access.Origin(r)
	entry := jobstore.AuditEntry{User: u.Name, Role: u.Role, Address: address, Action: "log-in", Outcome: "logged in"}
	tooMany, _ := errors.AsType[*users.WaitError](err)
	wrong, _ := errors.AsType[*users.WrongError](err)
	switch {
	case err == nil:
		c.audit(ctx, entry)
		http.Redirect(w, r, localPath(r.PostForm.Get("back")), http.StatusSeeOther)
	case tooMany != nil:
		seconds := int(math.Ceil(tooMany.Wait.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		c.fail(w, r, &problem{http.StatusTooManyRequests, "Too many attempts", fmt.Sprintf("Too many log-ins from this address or for this name, at once or with a wrong password: try again in %d s.", seconds)})
	case wrong != nil:
		entry.User, entry.Role, entry.Outcome = wrong.User.Name, wrong.User.Role, "refused: wrong password"
		if wrong.User.Name == "" {
			entry.Outcome = "refused: no such user" // the name is not kept: it may be a password
		}
		if wrong.Record {
			c.audit(ctx, entry)
		}
		c.loginPage(w, r, http.StatusForbidden, name, true)
	default:
		c.fail(w, r, &problem{http.StatusServiceUnavailable, "Too many log-ins at once", "The console judges passwords two at a time and could not yet: try again."})
	}
}

// logout ends the session of the browser.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if who, err := c.visitor(r); err == nil && who.Session {
		c.audit(r.Context(), jobstore.AuditEntry{User: who.Name, Role: who.Role.String(), Address: who.Address, Action: "log-out", Outcome: "logged out"})
	}
	c.access.LogOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
