package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/filewatch"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/survey"
	"github.com/taktworks/takt/internal/users"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/sampling"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// Options configure a Console.
type Options struct {
	// Listen is host:port; port 0 is a free one, and no host means 127.0.0.1. An address that other machines reach takes Users, and TLSCert or TrustedProxies.
	Listen string
	// Hosts are names that a browser may call this server by, beside those of loopback and of the certificate.
	Hosts []string
	// TLSCert and TLSKey are PEM files of the certificate and its key, read anew when they change; "" = plain HTTP.
	TLSCert, TLSKey string
	// Users is the file of users and tokens, made by takt console user add; read anew when it changes. "" = each visitor from this machine is an operator.
	Users string
	// TrustedProxies are the addresses of proxies that have TLS and may name the user, in the header ProxyUserHeader. No other peer may then speak plain HTTP.
	TrustedProxies  []netip.Prefix
	ProxyUserHeader string // default X-Forwarded-User

	// Open connects to Redis. It is called again until it succeeds.
	Open func(ctx context.Context) (*jobstore.Store, error)
	// Tasks, Workflows and Boards are what the pages of these parts show; those that are nil have no pages. Each is opened when a page first needs it.
	Tasks     func(ctx context.Context) (*task.Client, error)
	Workflows func(ctx context.Context) (*workflow.Client, error)
	Boards    []BoardOptions
	// MES sends the job methods. Run runs it.
	MES *mes.Client

	// Doctor judges Redis and the broker, Check lists the broken invariants of the store and of the retained topics, each as the command of this name; nil = the page of the system has
	// no such part. Each runs once at a time.
	Doctor func(ctx context.Context) ([]jobstore.Diagnosis, error)
	Check  func(ctx context.Context, store *jobstore.Store) ([]jobstore.Violation, error)
	// Settings are the configuration in force, without secrets.
	Settings []Setting

	TopicPrefix string // default takt
	Redis       string // what is shown of the addresses: without passwords
	Broker      string
	Version     string
	Log         *slog.Logger // default slog.Default()

	now func() time.Time // of tests, for sessions and tokens; default time.Now
}

// BoardOptions are a job board that the console shows.
type BoardOptions struct {
	Name string // in addresses; unique
	URL  string // what is shown of it: without passwords
	Open func(ctx context.Context) (*board.Board, error)
}

// Console serves the pages. Make it with New, then call Run.
type Console struct {
	o      Options
	listen net.Listener
	hosts  map[string]bool // names in lower case, without port

	access      *users.Access
	certificate *filewatch.Certificate // nil: plain HTTP
	unrecorded  atomic.Pointer[string] // why the last action was not recorded; nil: it was

	store   holder
	book    *book
	follows follows
	polled  http.Handler
	results results
	recipes jobstore.RecipeCache
	day     sampling.Day
	broker  health
	doctor  *survey.Survey[jobstore.Diagnosis]
	check   *survey.Survey[jobstore.Violation]

	tasks     source[*task.Client]
	workflows source[*workflow.Client]
	boards    map[string]*source[*board.Board]
	listings  sync.Map // *listing by the name of the board
}

// How long one request may ask Redis, and a job method wait for its answer.
const (
	readWithin   = 2 * time.Second
	answerWithin = 10 * time.Second
)

// New checks the options and listens; an option that it does not take is an *OptionError. What it listens on is closed by Run.
func New(o Options) (*Console, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, &OptionError{"listen", o.Listen, "must be host:port, for example 127.0.0.1:8420"}
	}
	host = cmp.Or(host, "127.0.0.1")
	o.TopicPrefix, o.Log, o.ProxyUserHeader = cmp.Or(o.TopicPrefix, "takt"), cmp.Or(o.Log, slog.Default()), cmp.Or(o.ProxyUserHeader, defaultUserHeader)
	c := &Console{o: o, hosts: make(map[string]bool), book: newBook()}
	if err := c.openAccess(host, port); err != nil {
		return nil, err
	}
	if c.listen, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return nil, fmt.Errorf("console: %w: choose another address for the console", err)
	}
	for _, name := range append(slices.Clone(o.Hosts), host) {
		c.hosts[hostName(name)] = true
	}
	c.follows.of = make(map[string]*follow)
	c.tasks.open, c.tasks.close = o.Tasks, (*task.Client).Close
	c.workflows.open, c.workflows.close = o.Workflows, (*workflow.Client).Close
	c.boards = make(map[string]*source[*board.Board])
	for _, b := range o.Boards {
		c.boards[b.Name] = &source[*board.Board]{open: b.Open, close: func(b *board.Board) { _ = b.Close() }} // nothing of it is left undone
	}
	c.surveys()
	c.polled = c.pollable()
	return c, nil
}

// hostName is a host without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// loopback tells whether a host is this machine, for itself alone.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// URL is where the console is.
func (c *Console) URL() string {
	if c.certificate != nil {
		return "https://" + c.listen.Addr().String() + "/"
	}
	return "http://" + c.listen.Addr().String() + "/"
}

// Run serves until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	c.o.Log.Info("the console is served", "url", c.URL())
	work, stop := context.WithCancel(ctx)
	defer stop()
	web := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return work }, ErrorLog: slog.NewLogLogger(c.o.Log.Handler(), slog.LevelDebug),
	}
	var parts sync.WaitGroup
	ends := make(chan error, 2)
	parts.Go(func() {
		if c.certificate == nil {
			ends <- web.Serve(c.listen)
			return
		}
		web.TLSConfig = c.certificate.Config()
		ends <- web.ServeTLS(c.listen, "", "")
	})
	parts.Go(func() {
		if err := c.o.MES.Run(work); err != nil {
			ends <- err
		}
	})
	parts.Go(func() { c.watchBroker(work) })
	parts.Go(func() { c.watchOrders(work) })
	parts.Go(func() { c.doctor.Serve(work) })
	parts.Go(func() { c.check.Serve(work) })
	parts.Go(func() { c.day.Follow(work, c.store.get, c.book.announce) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-ends:
	}
	stop() // streams of events end with it
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	if web.Shutdown(last) != nil {
		web.Close()
	}
	parts.Wait()
	c.follows.wait.Wait()
	c.tasks.end()
	c.workflows.end()
	for _, b := range c.boards {
		b.end()
	}
	if store := c.store.get(); store != nil {
		store.Close()
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// watchBroker keeps up with whether job methods can be sent.
func (c *Console) watchBroker(ctx context.Context) {
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, time.Second)
		err := c.o.MES.Ready(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if c.broker.set(err) {
			c.book.announce()
		}
		if err == nil {
			lifecycle.Sleep(ctx, time.Second)
		}
	}
}

// watchOrders opens the store once Redis answers, and keeps the book.
func (c *Console) watchOrders(ctx context.Context) {
	for ctx.Err() == nil {
		store, err := c.o.Open(ctx)
		if err == nil {
			c.store.Store(store)
			c.book.follow(ctx, store)
			return
		}
		c.book.failed(err)
		lifecycle.Sleep(ctx, time.Second/2)
	}
}

// holder has the store once there is one.
type holder struct{ atomic.Pointer[jobstore.Store] }

// get is the store; nil = there is none yet.
func (h *holder) get() *jobstore.Store { return h.Load() }
