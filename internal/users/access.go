package users

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Role says what a visitor may do. Each role may do what those below it may.
type Role int

// Viewers look, operators steer what is there, admins take things away for good, or from many at once.
const (
	Viewer Role = iota + 1
	Operator
	Admin
)

func (r Role) String() string {
	if r == 0 {
		return ""
	}
	return Roles[r-1]
}

// RoleOf is the role of a name; 0 = there is none.
func RoleOf(name string) Role { return Role(slices.Index(Roles, name) + 1) }

// Visitor is who sent a request.
type Visitor struct {
	Name    string // "" = the server has no users
	Role    Role
	Address string // without port
	Session bool   // began here, so that it can be ended here
}

// Alone tells whether the server has no users, so that there are no admins.
func (v Visitor) Alone() bool { return v.Name == "" && v.Role == Operator }

// Access says who uses a server over HTTP. Make it with NewAccess. It is for several goroutines at once.
type Access struct {
	Directory *Directory     // nil: all who reach the server, as operators
	Proxies   []netip.Prefix // that have TLS and may name the user
	Header    string         // in which they name the user
	Now       func() time.Time
	Limits    Limiter // of log-ins

	sessions Sessions
	judge    Judge
}

// NewAccess is that to a server by a clock, nil = time.Now. Its fields may be set until it is used.
func NewAccess(now func() time.Time) *Access {
	if now == nil {
		now = time.Now
	}
	return &Access{Now: now, judge: make(Judge, 2)}
}

// Why there is no visitor.
var (
	ErrLogIn      = errors.New("users: not logged in")
	ErrNamedTwice = errors.New("users: a proxy named the user more than once")
	ErrNoUser     = errors.New("users: the user that a proxy named is not in the file")
)

// Visitor says who sent a request, or why it has none: ErrLogIn, ErrNamedTwice or ErrNoUser.
func (a *Access) Visitor(r *http.Request) (Visitor, error) {
	address, proxied := a.Origin(r)
	if a.Directory == nil {
		return Visitor{Role: Operator, Address: address}, nil
	}
	now := a.Now()
	if names := r.Header.Values(a.Header); proxied && len(names) > 0 {
		u, ok := a.Directory.User(names[0], now)
		switch {
		case len(names) > 1:
			return Visitor{}, ErrNamedTwice
		case !ok:
			return Visitor{}, ErrNoUser
		}
		return Visitor{Name: u.Name, Role: RoleOf(u.Role), Address: address}, nil
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if u, ok := a.Directory.Token(token, now); ok {
			return Visitor{Name: "token:" + u.Name, Role: RoleOf(u.Role), Address: address}, nil
		}
		return Visitor{}, ErrLogIn
	}
	cookie, err := r.Cookie(cookieName(r, proxied))
	if err != nil {
		return Visitor{}, ErrLogIn
	}
	u, ok := a.sessions.Find(cookie.Value, now, r.Header.Get("Sec-Fetch-Dest") != "empty") // what a script asks for is no sign of a person
	if !ok {
		return Visitor{}, ErrLogIn
	}
	if is, ok := a.Directory.User(u.Name, now); !ok || is != u {
		a.sessions.End(cookie.Value)
		return Visitor{}, ErrLogIn
	}
	return Visitor{u.Name, RoleOf(u.Role), address, true}, nil
}

// While ends with the session, token or user of a request, or with its context; end frees it.
func (a *Access) While(r *http.Request, who Visitor) (ctx context.Context, end context.CancelFunc) {
	ctx, end = context.WithCancel(r.Context())
	if a.Directory == nil {
		return ctx, end
	}
	r = r.Clone(ctx)
	r.Header.Set("Sec-Fetch-Dest", "empty") // to wait is no sign of a person
	go func() {
		look := time.NewTicker(time.Second)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if now, err := a.Visitor(r); err != nil || now != who {
					end()
					return
				}
			}
		}
	}()
	return ctx, end
}

// Origin is where a request comes from: the address of the visitor, and whether a trusted proxy sent it.
func (a *Access) Origin(r *http.Request) (address string, proxied bool) {
	trusted := func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && slices.ContainsFunc(a.Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	}
	address, _, _ = net.SplitHostPort(r.RemoteAddr)
	if !trusted(address) {
		return address, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) { // the last that no trusted proxy wrote is what one of them saw
		hop = strings.TrimSpace(hop)
		ip, err := netip.ParseAddr(hop)
		if err != nil { // some proxies write the port, too
			port, _ := netip.ParseAddrPort(hop)
			ip = port.Addr()
		}
		if !ip.IsValid() {
			break
		}
		if address = ip.Unmap().String(); !trusted(address) {
			break
		}
	}
	return address, true
}

// WaitError is that too many log-ins failed from an address or for a name.
type WaitError struct{ Wait time.Duration }

func (e *WaitError) Error() string {
	return fmt.Sprintf("users: too many log-ins at once, or with a wrong password: wait %v", e.Wait)
}

// WrongError is a wrong name or password. No answer to a visitor tells which.
type WrongError struct {
	User   User // zero: there is no such user
	Record bool // it does not come so often that a record would be flooded
}

func (*WrongError) Error() string { return "users: wrong name or password" }

// LogIn begins a session, whose cookie it sets, and ends that of the same browser. Its errors are *WaitError, *WrongError, and that of ctx if the password could not be judged in time. How long it takes
// does not tell a wrong password from a name that there is not.
func (a *Access) LogIn(ctx context.Context, w http.ResponseWriter, r *http.Request, name, password string) (User, error) {
	now := a.Now()
	address, proxied := a.Origin(r)
	give, wait := a.Limits.Take(now, "from "+network(address), "name "+Hash(name))
	if wait > 0 {
		return User{}, &WaitError{wait}
	}
	u, _ := a.Directory.User(name, now)
	right, err := a.judge.Password(ctx, u, password)
	if err != nil {
		give()
		return User{}, err
	}
	if !right {
		_, wait := a.Limits.Take(now, "record")
		return User{}, &WrongError{u, wait == 0}
	}
	give()
	if old, err := r.Cookie(cookieName(r, proxied)); err == nil {
		a.sessions.End(old.Value)
	}
	setCookie(w, r, proxied, a.sessions.Begin(u, now), sessionLasts)
	return u, nil
}

// LogOut ends the session of the browser, if it has one.
func (a *Access) LogOut(w http.ResponseWriter, r *http.Request) {
	_, proxied := a.Origin(r)
	if cookie, err := r.Cookie(cookieName(r, proxied)); err == nil {
		a.sessions.End(cookie.Value)
		setCookie(w, r, proxied, "", -time.Second)
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

// network is what one person has of addresses: an IPv4 address, or 64 bits of IPv6.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	p, _ := ip.WithZone("").Prefix(64) // 64 bits there are
	return p.String()
}
