package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
)

const (
	// One megabyte per connection is the client's default; entries and documents here are small and
	// larger ones only cost a second read.
	bufferSize = 64 << 10
	ringScale  = 9 // 512 commands in flight per connection before a caller waits

	// Every reader that blocks and every subscription has a connection to itself. Who finds none left waits for one without an error, and for ever if none is given back:
	// so it is the server (maxclients) or the system that must refuse, for those say so. The library allows 1024; what is not used costs nothing.
	dedicated = 1 << 20

	dialTimeout = 5 * time.Second
	// A command without an answer for this long means a dead connection.
	answerTimeout = 5 * time.Second
	// Idle connections are pinged this often.
	pingInterval = 5 * time.Second

	loadingPause = 50 * time.Millisecond

	// A node that hangs breaks no connection, so the client learns only by asking that a replica has taken over.
	slotsInterval = time.Second
	// Sentinels tell who is the master; asking is for what was missed. The library asks the old master, too, and while that hangs it hears of no new one.
	masterInterval = 30 * time.Second
)

// Connect opens the connection, waits while the server still loads its data, and checks that the server can do what
// Takt needs. A server that is full, or evicts keys, it only says so of in o.Log. It blocks until that is known or ctx ends; an *Error says what is wrong and what to do. The client is safe
// for concurrent use, keeps reconnecting by itself, and is the caller's to close.
func Connect(ctx context.Context, o Options) (rueidis.Client, error) {
	t, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	opt, err := o.client(ctx, t)
	if err != nil {
		return nil, err
	}
	rdb, err := open(ctx, t, opt)
	if err != nil {
		return nil, o.explain(t, err)
	}
	if rdb, err = o.fit(ctx, t, opt, rdb); err != nil {
		return nil, o.explain(t, err)
	}
	o.warn(ctx, t, rdb)
	return rdb, nil
}

// client translates o for the client library.
func (o Options) client(ctx context.Context, t target) (rueidis.ClientOption, error) {
	tlsConfig, err := o.tlsConfig(t)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	opt := rueidis.ClientOption{
		TLSConfig:   tlsConfig,
		InitAddress: t.addrs,
		Username:    t.user,
		Password:    t.pass,
		SelectDB:    t.db,
		ClientName:  "takt",

		ClientSetInfo:      rueidis.DisableClientSetInfo,
		DisableCache:       true, // documents are compared by their bytes; a cached one would only bring conflicts
		DisableRetry:       true, // see the package comment
		ForceSingleClient:  true, // whether it is a cluster is asked for below, not guessed
		AlwaysRESP2:        o.RESP2 || o.Embedded,
		PipelineMultiplex:  -1, // one pipelined connection: as fast as four and in order
		ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize, RingScaleEachConn: ringScale,
		BlockingPoolSize: dedicated,
		ConnWriteTimeout: answerTimeout,
	}
	opt.Dialer.Timeout, opt.Dialer.KeepAlive = dialTimeout, pingInterval
	if o.DialTimeout > 0 {
		opt.Dialer.Timeout = o.DialTimeout
	}
	if end, ok := ctx.Deadline(); ok {
		opt.Dialer.Timeout = max(min(opt.Dialer.Timeout, time.Until(end)), time.Millisecond)
	}
	if o.Username != "" || o.Password != "" {
		opt.Username, opt.Password = o.Username, o.Password
	}
	if o.ClientName != "" {
		opt.ClientName = o.ClientName
	}
	if t.network == "unix" {
		opt.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	if o.Dial != nil {
		opt.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return o.Dial() }
		opt.Dialer.KeepAlive = -1
	}
	if t.master != "" {
		opt.Sentinel = rueidis.SentinelOption{
			MasterSet: t.master, Username: o.SentinelUsername, Password: o.SentinelPassword,
			TLSConfig: tlsConfig, Dialer: opt.Dialer, TopologyRefreshInterval: masterInterval,
		}
	}
	return opt, nil
}

// open dials the addresses in turn; the first that answers is used. With sentinels the library does that.
func open(ctx context.Context, t target, opt rueidis.ClientOption) (rueidis.Client, error) {
	if t.master != "" {
		return dial(opt)
	}
	var errs []error
	for _, addr := range t.addrs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		opt.InitAddress = []string{addr}
		rdb, err := dial(opt)
		if err == nil {
			return rdb, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func dial(opt rueidis.ClientOption) (rueidis.Client, error) {
	rdb, err := rueidis.NewClient(opt)
	if err != nil {
		if rdb != nil {
			rdb.Close()
		}
		return nil, err
	}
	return rdb, nil
}

// fit checks the server behind rdb and returns the client to use with it; rdb is closed on error.
func (o Options) fit(ctx context.Context, t target, opt rueidis.ClientOption, rdb rueidis.Client) (_ rueidis.Client, err error) {
	defer func() {
		if err != nil {
			rdb.Close()
		}
	}()
	if err := loaded(ctx, rdb, o.Prefix); err != nil {
		return nil, err
	}
	if !o.Embedded && t.master == "" {
		cluster, err := isCluster(ctx, rdb)
		if err != nil {
			return nil, err
		}
		if cluster {
			if Tag(o.Prefix) == "" {
				return nil, &Error{Server: t.where(), Problem: fmt.Sprintf("is a cluster node, and the key prefix %q has no hash tag, so the keys of one commit would fall on several nodes", o.Prefix),
					Fix: cmp.Or(o.Untagged, fmt.Sprintf("choose a tagged prefix, for example %s{%s}, or a server that is not a cluster", cmp.Or(o.PrefixOption, "--prefix "), cmp.Or(o.Prefix, "takt")))}
			}
			rdb.Close()
			opt.ForceSingleClient = false
			opt.ClusterOption.ShardsRefreshInterval = slotsInterval
			if rdb, err = dial(opt); err != nil {
				return nil, err
			}
		}
	}
	if o.Looks {
		return rdb, nil
	}
	if err := probe(ctx, t, rdb, o.Prefix); err != nil {
		return nil, err
	}
	return rdb, nil
}

// Tag returns the hash tag of a key prefix, "" if it has none.
func Tag(prefix string) string {
	_, rest, _ := strings.Cut(prefix, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok {
		return ""
	}
	return tag
}

// loaded waits until the server has read its data from disk.
func loaded(ctx context.Context, rdb rueidis.Client, prefix string) error {
	for {
		err := rdb.Do(ctx, rdb.B().Exists().Key(prefix+":loaded").Build()).Error()
		re, ok := rueidis.IsRedisErr(err)
		if ok {
			if _, elsewhere := re.IsMoved(); elsewhere { // a node of a cluster that has loaded what it has
				return nil
			}
		}
		if !ok || !re.IsLoading() {
			return err
		}
		if !lifecycle.Sleep(ctx, loadingPause) {
			return err
		}
	}
}

// isCluster asks twice, for either question may be denied by an access list.
func isCluster(ctx context.Context, rdb rueidis.Client) (bool, error) {
	info, err := rdb.Do(ctx, rdb.B().Info().Section("cluster").Build()).ToString()
	if err == nil {
		return strings.Contains(info, "cluster_enabled:1"), nil
	}
	if _, ok := rueidis.IsRedisErr(err); !ok {
		return false, err
	}
	err = rdb.Do(ctx, rdb.B().ClusterInfo().Build()).Error()
	if err == nil {
		return true, nil
	}
	if _, ok := rueidis.IsRedisErr(err); !ok {
		return false, err
	}
	return false, nil // cluster support disabled, or denied: then the probe would show a MOVED
}

// ServerTime is the server's clock, by which leases and due times are judged. One round trip.
func ServerTime(ctx context.Context, rdb rueidis.Client) (time.Time, error) {
	return ReadTime(rdb.Do(ctx, rdb.B().Time().Build()))
}

// ReadTime reads the reply to TIME.
func ReadTime(reply rueidis.RedisResult) (time.Time, error) {
	v, err := reply.AsIntSlice()
	if err != nil {
		return time.Time{}, fmt.Errorf("redis: TIME: %w", err)
	}
	if len(v) != 2 {
		return time.Time{}, fmt.Errorf("redis: TIME: %d values instead of 2", len(v))
	}
	return time.Unix(v[0], v[1]*int64(time.Microsecond)).UTC(), nil
}
