// Package driver is what a kind of board must do, and the words that all kinds share. Programs use package board; this one is for those who write another
// kind. Package board/boardtest is the contract as a suite.
package driver

import (
	"context"
	"log/slog"
	"time"
)

// Store is one board on one server. Its methods may be called by many goroutines, and return ErrClosed after Close.
//
// Errors wrap those of this package; everything that is the server's or the network's fault wraps ErrAway. A method that fails has changed nothing,
// unless the error is ErrAway: then it may have. Post, Extend, Finish, Restore and Purge may then be repeated.
type Store interface {
	// Post stores postings whose fields but CreatedOn, Sequence and Ref are filled and checked, and fills these, in the order given. A posting that is there already with this UUID
	// is left as it is, and its fields are filled from there; chosen says that the caller has chosen some of the UUIDs, else that cannot be but for repetitions. call is another text for each call but its repetitions, so that a repetition after a lost reply posts nothing twice.
	Post(ctx context.Context, call string, all []*Posting, chosen bool) error

	// List reads everything in one snapshot, in no particular order.
	List(ctx context.Context) ([]Row, []Malformed, error)
	// Compare orders postings as TaskFlow has them on such a board; Compare of this package for kinds that TaskFlow does not know.
	Compare(a, b *Posting) int
	// Modified fills LastModified of rows that List gave, where it can.
	Modified(ctx context.Context, rows []Row) error
	// Find reads one by its Ref, with LastModified. Nothing there is a Row in State Complete, or Trashed if that is known, with Posting nil. A Malformed is returned as error.
	Find(ctx context.Context, ref string) (Row, error)
	// Count is how many records there are, malformed ones among them.
	Count(ctx context.Context) (int, error)

	// Claim takes the first candidates that are still there and unclaimed, up to r.Max, in their order. None: a *ClaimedError about the first that is claimed, or ErrNotFound.
	Claim(ctx context.Context, r Request) ([]Grant, error)
	// Extend gives owner's claim ttl from now. apart says that an earlier request has no answer: where requests share a connection, it takes another one. ErrClaimLost: the claim is not owner's any more.
	Extend(ctx context.Context, p *Posting, owner string, ttl time.Duration, apart bool) error

	// Finish ends claims, many in few round trips. The errors are those of each, in their order: it is refused unless the owner has the posting: ErrNotFound, ErrUnowned, *NotOwnerError.
	Finish(ctx context.Context, how Ending, all []Held) []error

	// Trashed lists what was put aside.
	Trashed(ctx context.Context) ([]Row, []Malformed, error)
	// Restore posts a trashed posting again, under its UUID and, where it can, its Sequence. ErrNotFound, ErrExists. ref is that of Trashed.
	Restore(ctx context.Context, ref string) error
	// Purge deletes a trashed posting for ever. ErrNotFound.
	Purge(ctx context.Context, ref string) error
	// Quarantine puts a malformed record aside; ErrNotFound if there is none, an *InvalidError if it is a posting.
	Quarantine(ctx context.Context, ref string) error

	// Register makes e known for EntityTTL at least, or until this process is gone. It is called again every RegisterEvery; first says that it was not before. ErrUnsupported for kinds that a store does not take.
	Register(ctx context.Context, e Entity, first bool) error
	// Unregister takes back what this process has registered.
	Unregister(ctx context.Context, e Entity) error
	Entities(ctx context.Context, kind string) ([]Entity, error) // "" = of all kinds

	// Watch calls changed whenever the board may have changed, until ctx ends, which it waits for. It never gives up: after an outage it calls changed, too. Calls do not overlap. free is false if it is certain that nothing became free to be
	// claimed.
	Watch(ctx context.Context, changed func(free bool)) error

	// Check lists what is inconsistent in the records of this board, in words that name the record and what to do.
	Check(ctx context.Context) ([]string, error)

	Close() error
}

// Connect says which board to open and how.
type Connect struct {
	// URL names the board:
	//
	//	redis://[user:password@]host[:port][/db][?namespace=taskflow]    and all other forms of URLs of Takt's Redis
	//	zookeeper://[user:password@]host[:port][,host[:port]]...[/path]   path is /taskflow/jobs by default
	URL string

	Username, Password        string // win over those in URL; "" = those in URL
	CAFile, CertFile, KeyFile string // PEM, for TLS to Redis; "" = the system's roots, and no certificate of our own

	SentinelUsername, SentinelPassword string // of the sentinels of Redis themselves; "" = none
	ServerName                         string // name in the certificates of all servers of Redis; "" = the one by which each is reached

	// Looks says that the program only reads: rights to read are enough, and folders of ZooKeeper that are missing are not made.
	Looks bool

	// Session is how long ZooKeeper keeps the claims of a process that it does not hear of; 0 = 10 s. Other kinds ignore it.
	Session time.Duration

	Log *slog.Logger // gets malformed postings, outages and lost claims; nil discards them; never nil for a kind
}

// NoTTL is the time to live of a claim that does not expire.
const NoTTL time.Duration = -1

// Entities are registered again after so long, and believed in for so long where they do not hang on a session.
const (
	RegisterEvery = 5 * time.Second
	EntityTTL     = 30 * time.Second
)

// Ending is how a claim is finished.
type Ending string

// Endings.
const (
	Consume Ending = "consume" // the posting is removed: it is done
	Abandon Ending = "abandon" // it is given back
	Trash   Ending = "trash"   // it is put aside
)

// Request asks for a claim.
type Request struct {
	Candidates []*Posting
	Max        int // claims, at least 1
	Owner      string
	TTL        time.Duration // how long the claim holds without Extend: at least a millisecond, or NoTTL; kinds whose claims hang on a session ignore it
	Reclaim    bool          // a claim that Owner already has is given again, with TTL from now, as TaskFlow did before 2.12
}

// Held is a posting and who has it.
type Held struct {
	*Posting
	Owner string
}

// Grant is a claim as the server gave it.
type Grant struct {
	Index   int    // which of the candidates it is; those before it are claimed or gone
	Newest  int64  // a number that changes when something is posted; 0 = unknown
	Fence   uint64 // rises from claim to claim on this board
	Attempt int    // which claim of this posting by Takt it is, from 1

	// Lost is closed when the server or the session took the claim away; nil = nothing will say so but Extend.
	Lost <-chan struct{}
	// Over is closed when the session is over on which the claim hangs, and Lost with it; nil = it hangs on none.
	Over <-chan struct{}
}
