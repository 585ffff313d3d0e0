package jobstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/clock"
	"github.com/taktworks/takt/internal/commit"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/stream"
)

// Options configure a Store. The zero value of a field takes the default it names.
type Options struct {
	URL                       string // redis://, rediss:// or redis+sentinel://; required
	Username, Password        string // beat those of the URL
	CAFile, CertFile, KeyFile string // PEM files, for rediss://
	ServerName                string // name in the certificates of all servers; "" = the one by which each is reached
	SentinelUsername          string // of the sentinels themselves; "" = none
	SentinelPassword          string
	Looks                     bool          // the program only reads, so rights to read are enough
	Embedded                  bool          // the in-process store of `takt demo`, which knows fewer commands
	RESP2                     bool          // speak RESP2 although the server offers RESP3
	Prefix                    string        // of every key; default "takt"
	Instance                  string        // this process, unique among all; required for Run methods
	Source                    string        // CloudEvents source of status events; default "urn:takt:" + Instance
	EndStateRetention         time.Duration // documents of finished orders are kept so long; default 7 days
	ReplyRetention            time.Duration // replies are kept for repeated commands; default 2 h
	ChangeCap                 int64         // entries kept on each change stream, about; default 5000
	EventExpiry               time.Duration // MessageExpiryInterval of status events; 0 = none
	WorkerTTL                 time.Duration // another process takes over the work of a dead one after; default 10 s
	MaxDeliveries             int           // then an entry is a dead letter; default 10
	Patience                  time.Duration // what fails for unknown reasons while others are handled is a dead letter after, and after ten tries; default 60 s

	// Replicas is how many replicas of Redis must have acknowledged (WAIT) the change of a CloudEvent with a reply before Commit, Configure and Replicated return
	// without an error, and an equipment command before RunOutbox hands it out; 0 = none, and a failover may lose what the master alone has. If they have not
	// within ReplicasWithin (default 1 s), the error is a *ReplicasError. Changes that come together share one wait.
	Replicas       int
	ReplicasWithin time.Duration
	// WaitForDisk has the append-only files of the master and of Replicas replicas acknowledge all that (WAITAOF), not their memories: then it outlives a loss of
	// power, too. It needs Valkey, or Redis 7.2 or later, with appendonly yes; Open fails without.
	WaitForDisk bool

	// Schemas bring stored documents of earlier schemas up to date as they are read; nil = there are none.
	Schemas Schemas

	// Observe is told of entries of the streams, by consumer group and outcome, for metrics; it must not block. nil = nobody.
	Observe func(group, outcome string, entries int)
	Log     *slog.Logger // default slog.Default()
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.EndStateRetention, 7*24*time.Hour)
	def(&o.ReplyRetention, 2*time.Hour)
	def(&o.WorkerTTL, 10*time.Second)
	def(&o.Patience, time.Minute)
	if o.Prefix == "" {
		o.Prefix = "takt"
	}
	if o.Source == "" {
		o.Source = "urn:takt:" + o.Instance
	}
	if o.ChangeCap == 0 {
		o.ChangeCap = 5000
	}
	if o.MaxDeliveries == 0 {
		o.MaxDeliveries = 10
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

func (o Options) validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
		floor time.Duration
	}{
		{"EndStateRetention", o.EndStateRetention, time.Second},
		{"ReplyRetention", o.ReplyRetention, time.Second},
		{"WorkerTTL", o.WorkerTTL, 100 * time.Millisecond},
		{"Patience", o.Patience, time.Millisecond},
	} {
		if d.value < d.floor {
			return fmt.Errorf("jobstore: %s is %v, must be at least %v", d.name, d.value, d.floor)
		}
	}
	if o.ChangeCap < 100 {
		return fmt.Errorf("jobstore: ChangeCap is %d, must be at least 100", o.ChangeCap)
	}
	if err := o.wait().Check(); err != nil {
		return fmt.Errorf("jobstore: %w", err)
	}
	if o.MaxDeliveries < 1 {
		return fmt.Errorf("jobstore: MaxDeliveries is %d, must be at least 1", o.MaxDeliveries)
	}
	return nil
}

func (o Options) wait() redis.Wait {
	return redis.Wait{Replicas: o.Replicas, ForDisk: o.WaitForDisk, Within: o.ReplicasWithin}
}

// Instance is that of the options.
func (s *Store) Instance() string { return s.opt.Instance }

// Store is the job orders of one key prefix. Its methods may be called at once from any goroutine.
type Store struct {
	rdb    rueidis.Client
	safe   *redis.Replicated // nil: nothing waits for replicas
	keys   keys.Keys
	opt    Options
	log    *slog.Logger
	worker *stream.Worker
	alarm  *redis.Alarm

	contents contentGuesses
	recall   recall

	wall         clock.Wall         // what the server's clock says
	installation clock.Installation // what due times are judged by
	dueTrip      atomic.Int64       // round trip of the last call of Due, in ns

	commits  atomic.Int64 // changes that were written, for suspects
	suspects suspects
	letters  letterBounds
	history  historyBounds
	witness  witness // of losses
}

// Open connects to Redis, probes it, and fails with what to do next if it will not do.
func Open(ctx context.Context, opt Options) (*Store, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, err
	}
	k := keys.New(opt.Prefix)
	rdb, err := redis.Connect(ctx, redis.Options{
		URL: opt.URL, Username: opt.Username, Password: opt.Password,
		CAFile: opt.CAFile, CertFile: opt.CertFile, KeyFile: opt.KeyFile, ServerName: opt.ServerName,
		SentinelUsername: opt.SentinelUsername, SentinelPassword: opt.SentinelPassword,
		Embedded: opt.Embedded, Looks: opt.Looks, RESP2: opt.RESP2, Prefix: opt.Prefix, Log: opt.Log,
	})
	if err != nil {
		return nil, err
	}
	s := &Store{rdb: rdb, keys: k, opt: opt, log: opt.Log, alarm: redis.NewAlarm(opt.Log), recall: newRecall(recallBytes), suspects: suspects{patience: opt.Patience, tries: poisonTries}, letters: letterBounds{maxIntakeLetters, maxIntakeBytes}, history: historyBounds{MaxHistoryEntries, MaxHistoryBytes}}
	s.safe = opt.wait().On(rdb, k.Replicated())
	s.worker = stream.NewWorker(rdb, k, opt.Instance, opt.WorkerTTL, opt.Log)
	err = s.Ping(ctx)
	if err == nil {
		if err = opt.wait().Probe(ctx, rdb); err != nil {
			err = fmt.Errorf("jobstore: %w", err)
		}
	}
	if err == nil {
		err = s.SyncInstallationTime(ctx)
	}
	if err != nil {
		rdb.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the connections. Nothing may use the Store afterwards.
func (s *Store) Close() { s.rdb.Close() }

// RunWorker keeps this process known as living, so that others leave its work alone, and watches that what it committed is
// not lost (see Epoch). It returns nil when ctx ends, and then others may take over at once.
func (s *Store) RunWorker(ctx context.Context) error {
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watchLosses(watch) })
	defer watching.Wait()
	defer stop()
	return s.worker.Run(ctx)
}

// Ping says whether Redis answers.
func (s *Store) Ping(ctx context.Context) error {
	server, err := redis.ServerTime(ctx, s.rdb)
	if err != nil {
		return fmt.Errorf("jobstore: read the server's clock: %w", err)
	}
	s.wall.Learn(server, time.Now())
	return nil
}

// Now is the date, by the clock of the server as it was last heard, for documents and messages. It never steps back within a
// process. Deadlines are judged by InstallationTime.
func (s *Store) Now() time.Time { return s.wall.Now(time.Now()) }

// ErrConflict: another writer came first and nothing was written. Load and decide again.
var ErrConflict = commit.ErrConflict

// Away says whether err means that Redis could not be asked, or that its answer was lost: the same call may be
// made again.
func Away(err error) bool { return redis.Away(err) }

// Waits says whether err is the trouble of Redis or of this process' rights on it, not of what was asked: Away, or
// denied. Nothing may be given up for it; the same call is to be made again until it is answered.
func Waits(err error) bool { return redis.Waits(err) }

// Full says whether Redis refused to write since its memory limit is reached. Nothing was written.
func Full(err error) bool { return redis.Full(err) }

// Reason says in a few words why Redis did not serve, for an error that Waits. It may go to the sender of a command: it
// names no address and no credentials.
func Reason(err error) string { return redis.Reason(err) }

// DocumentError says that a stored document cannot be read. Something else wrote it, or it was cut: `takt check`
// lists such documents.
type DocumentError struct {
	Key string
	Err error
}

func (e *DocumentError) Error() string { return fmt.Sprintf("jobstore: document %s: %v", e.Key, e.Err) }
func (e *DocumentError) Unwrap() error { return e.Err }

// ErrNotFound: no such document.
var ErrNotFound = errors.New("jobstore: not found")
