// Package zkboard keeps a job board in ZooKeeper in the layout of TaskFlow 1.24 to 6, byte for byte. Programs use package board.
//
// A board is a folder. Each posting is a node in it, and each claim an ephemeral node beside its posting, so that claims end with the session of their owner:
//
//	/taskflow/jobs/job0000000007                    posting, JSON; its version = claims by Takt
//	/taskflow/jobs/job0000000007.lock               {"owner": "..."}, ephemeral
//	/taskflow/.trash/job0000000007                  posting that was put aside, with the folder of its board as x_board
//	/taskflow/.entities/conductor/name@host:pid     registered conductor, ephemeral
//	/taskflow/.takt/jobs                            empty, written by each Post: the clock of the server. TaskFlow does not know it
//
// Every change is one transaction, and one round trip where nobody else is in the way. A claim writes the posting anew as it is, and what Takt writes into a lock is written in two steps: a lock of Takt has version 1, one of TaskFlow
// has version 0, and with the version of the posting no two claims look the same to the transaction that ends one.
//
// When the session ends, by the word of the server or because nothing was heard for nine tenths of its time, all claims are lost, and another session begins.
package zkboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/taktworks/takt/board/driver"
)

const (
	defaultPort = "2181"
	defaultPath = "/taskflow/jobs"

	// DefaultSession is how long claims outlive the last word of their process.
	DefaultSession = 10 * time.Second
	minSession     = 100 * time.Millisecond
	maxSession     = time.Hour

	// maxRequest is what a server takes in one request, if jute.maxbuffer is not set: it closes the connection of who sends more.
	maxRequest = 1<<20 - 1
	overhead   = 4 << 10 // of a request, around the record
)

// Store is one board in ZooKeeper. It is a driver.Store.
type Store struct {
	path     string // of the board
	trash    string // of what was put aside, which sibling boards share
	entities string
	clock    string // tells the time of a transaction
	hosts    []string
	auth     string // user:password; "" = none
	session  time.Duration
	log      *slog.Logger
	looks    bool // no folder is made

	ctx    context.Context // of all that goes on in the background
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex
	current *session      // nil = there is none
	turned  chan struct{} // closed and renewed when the session begins, ends, is connected or disconnected
	refusal error         // of the last attempt to reach a server
	closed  bool

	cache  cache
	claims sync.Map // *claim by ref
}

var _ driver.Store = (*Store)(nil)

// Open connects, and makes the folders that are missing. It fails at once when no server of the URL can be reached, and else when ctx ends.
func Open(ctx context.Context, o driver.Connect) (*Store, error) {
	s, err := parse(o)
	if err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.turned = make(chan struct{})
	s.wait.Go(s.run)
	if err := s.begin(ctx); err != nil {
		_ = s.Close() // never fails
		return nil, fmt.Errorf("board: %w", err)
	}
	return s, nil
}

// begin waits for the first session.
func (s *Store) begin(ctx context.Context) error {
	for {
		_, turned, err := s.link()
		if err == nil {
			if s.looks {
				return nil
			}
			return s.ensure(ctx)
		}
		if refused := s.refused(); refused != nil {
			return fmt.Errorf("%w: %w: is ZooKeeper running at %s?", driver.ErrAway, refused, strings.Join(s.hosts, ", "))
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return fmt.Errorf("%w: no session with ZooKeeper at %s: %w", driver.ErrAway, strings.Join(s.hosts, ", "), context.Cause(ctx))
		}
	}
}

// parse takes a URL apart. net/url knows no lists of hosts with ports, so one host stands for them.
func parse(o driver.Connect) (*Store, error) {
	scheme, rest, _ := strings.Cut(o.URL, "://")
	authority, folder := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, folder = rest[:i], rest[i:]
	}
	user := strings.LastIndexByte(authority, '@') + 1
	u, err := url.Parse(scheme + "://" + authority[:user] + "hosts" + folder)
	if err != nil || scheme == "" || strings.ContainsAny(rest, "?#") { // without err, which has the password
		return nil, driver.Invalid("URL", "that cannot be read", "must be like zookeeper://user:password@host:2181/taskflow/jobs, without ? and #, and with % and other special characters as %25 and so on")
	}
	s := &Store{log: o.Log, looks: o.Looks, session: cmp.Or(o.Session, DefaultSession)}
	if s.session < minSession || s.session > maxSession {
		return nil, driver.Invalid("Session", o.Session.String(), fmt.Sprintf("must be %v to %v, or 0 for %v", minSession, maxSession, DefaultSession))
	}
	password, _ := u.User.Password()
	if name, password := cmp.Or(o.Username, u.User.Username()), cmp.Or(o.Password, password); name != "" || password != "" {
		if name == "" || strings.Contains(name, ":") {
			return nil, driver.Invalid("Username", fmt.Sprintf("%.64q", name), "must not be empty beside a password, and hold no colon")
		}
		s.auth = name + ":" + password
	}
	for host := range strings.SplitSeq(authority[user:], ",") {
		addr, err := address(host)
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, addr)
	}
	return s, s.setPath(cmp.Or(u.Path, defaultPath))
}

func address(host string) (string, error) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), defaultPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
		return "", driver.Invalid("URL", fmt.Sprintf("with host %.64q", host), "must name host or host:port, several of them with commas between")
	}
	return net.JoinHostPort(name, port), nil
}

// setPath derives the folders from that of the board, as TaskFlow does: it replaces the text of the last part wherever that occurs. /a/jobs/jobs has its trash in /a/.trash/.trash.
func (s *Store) setPath(folder string) error {
	invalid := func(rule string) error { return driver.Invalid("path", fmt.Sprintf("%.64q", folder), rule) }
	switch {
	case !strings.HasPrefix(folder, "/"):
		return invalid("must begin with a slash")
	case strings.HasSuffix(folder, "/"):
		return invalid("must not end with a slash: TaskFlow would put its trash elsewhere")
	case path.Clean(folder) != folder:
		return invalid("must have no empty parts, no . and no ..")
	case !utf8.ValidString(folder) || strings.ContainsFunc(folder, unicode.IsControl):
		return invalid("must be UTF-8 without control characters")
	}
	parent, name := path.Split(folder)
	s.path = folder
	s.trash = strings.ReplaceAll(folder, name, ".trash")
	s.entities = strings.ReplaceAll(folder, name, ".entities")
	s.clock = parent + ".takt/" + name
	return nil
}

func (s *Store) posting(ref string) string { return s.path + "/" + ref }
func (s *Store) lock(ref string) string    { return s.path + "/" + ref + lockSuffix }

// ensure makes the folders that are missing.
func (s *Store) ensure(ctx context.Context) error {
	return s.change(ctx, func(c *zk.Conn) error {
		for _, folder := range []string{s.path, s.trash, s.clock} {
			if err := makeFolder(c, folder); err != nil {
				return fmt.Errorf("node %s: %w", folder, err)
			}
		}
		return nil
	})
}

// makeFolder makes a node with what is above it.
func makeFolder(c *zk.Conn, folder string) error {
	there, _, err := c.Exists(folder)
	if err != nil || there {
		return err
	}
	if parent := path.Dir(folder); parent != "/" {
		if err := makeFolder(c, parent); err != nil {
			return err
		}
	}
	if _, err = c.Create(folder, nil, zk.FlagPersistent, world); errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// world is who may do what with the nodes of TaskFlow: everybody everything.
var world = zk.WorldACL(zk.PermAll)

// Close ends the session, and with it the claims and the entities. If the server is away they end with the time of the session.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wait.Wait()
	return nil
}

// failed translates an error of the server or the network.
func (s *Store) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return driver.ErrClosed
	case away(err):
		return fmt.Errorf("%w: %w", driver.ErrAway, err)
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("the server does not let us: see to the user and password in the URL, and to the ACL of %s: %w", s.path, err)
	}
	return err
}

// away says that the server could not be asked.
func away(err error) bool {
	for _, e := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrNoServer, zk.ErrClosing} {
		if errors.Is(err, e) {
			return true
		}
	}
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, net.ErrClosed)
}

// Compare orders postings as TaskFlow iterates them on ZooKeeper: lowest priority first, oldest first within it.
func (s *Store) Compare(a, b *driver.Posting) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), driver.Compare(a, b))
}
