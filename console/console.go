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
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/workflow"
)

// Options configure a Console.
type Options struct {
	// Listen is host:port of this machine: localhost, 127.0.0.1, [::1]; port 0 is a free one, and no host means 127.0.0.1.
	Listen string
	// Hosts are names beside those of loopback that a browser may call this server by, for a tunnel or a proxy on this machine.
	Hosts []string

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

	store   holder
	book    *book
	tails   tails
	polls   polls
	results results
	recipes recipeCache
	samples samples
	broker  health
	doctor  survey[jobstore.Diagnosis]
	check   survey[jobstore.Violation]

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

// AddressError is an address that a console does not listen on.
type AddressError struct{ Address, Rule string }

func (e *AddressError) Error() string {
	return fmt.Sprintf("console: address %q: %s", e.Address, e.Rule)
}

// New checks the options and listens; an address that other machines reach is an *AddressError. What it listens on is closed by Run.
func New(o Options) (*Console, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, &AddressError{o.Listen, "must be host:port, for example 127.0.0.1:8420"}
	}
	host = cmp.Or(host, "127.0.0.1")
	if !loopback(host) {
		return nil, &AddressError{o.Listen, fmt.Sprintf("must be of this machine (127.0.0.1, [::1] or localhost), for the console knows no users yet, and each visitor may stop orders; "+
			"to use it from elsewhere listen on 127.0.0.1:%s and forward that port: ssh -L %s:127.0.0.1:%s HOST", port, port, port)}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("console: %w: choose another address for the console", err)
	}
	o.TopicPrefix, o.Log = cmp.Or(o.TopicPrefix, "takt"), cmp.Or(o.Log, slog.Default())
	c := &Console{o: o, listen: l, hosts: make(map[string]bool), book: newBook()}
	for _, name := range append(slices.Clone(o.Hosts), host) {
		c.hosts[hostName(name)] = true
	}
	c.tails.of = make(map[string]*tail)
	c.tasks.open, c.tasks.close = o.Tasks, (*task.Client).Close
	c.workflows.open, c.workflows.close = o.Workflows, (*workflow.Client).Close
	c.boards = make(map[string]*source[*board.Board])
	for _, b := range o.Boards {
		c.boards[b.Name] = &source[*board.Board]{open: b.Open, close: func(b *board.Board) { _ = b.Close() }} // nothing of it is left undone
	}
	c.surveys()
	c.polls.start(c)
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
func (c *Console) URL() string { return "http://" + c.listen.Addr().String() + "/" }

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
	parts.Go(func() { ends <- web.Serve(c.listen) })
	parts.Go(func() {
		if err := c.o.MES.Run(work); err != nil {
			ends <- err
		}
	})
	parts.Go(func() { c.watchBroker(work) })
	parts.Go(func() { c.watchOrders(work) })
	parts.Go(func() { c.doctor.serve(work) })
	parts.Go(func() { c.check.serve(work) })
	parts.Go(func() { c.watchSamples(work) })
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
	c.tails.wait.Wait()
	c.polls.wait.Wait()
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
			c.store.set(store)
			c.book.follow(ctx, store)
			return
		}
		c.book.failed(err)
		lifecycle.Sleep(ctx, time.Second/2)
	}
}

// holder has the store once there is one.
type holder struct {
	mu    sync.Mutex
	store *jobstore.Store
}

func (h *holder) get() *jobstore.Store {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store
}

func (h *holder) set(store *jobstore.Store) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.store = store
}
