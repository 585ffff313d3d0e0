package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/taktworks/takt/internal/embedded"
)

// startPatience bounds the start of a server.
const startPatience = time.Minute

// servers are what the peers run on.
type servers struct {
	redis    *redisServer
	postgres *postgresServer
	log      io.Writer // for what peers warn about
}

// serverOptions are those of startServers.
type serverOptions struct {
	RedisURL    string // "" = a redis-server of our own, in memory
	PostgresURL string // "" = a PostgreSQL of our own
	AOF         bool   // our redis-server writes an append-only file, flushed every second
	Redis       bool   // somebody needs Redis
	Postgres    bool   // somebody needs PostgreSQL
	Log         io.Writer
}

// startServers connects to the servers named, and starts those that are not. stop ends the latter and must be called.
func startServers(ctx context.Context, o serverOptions) (s servers, stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for i := len(stops) - 1; i >= 0; i-- {
			err = errors.Join(err, stops[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	s.log = o.Log
	if o.Redis {
		if s.redis, err = startRedis(ctx, o, &stops); err != nil {
			return s, stop, err
		}
	}
	if o.Postgres {
		if s.postgres, err = startPostgres(ctx, o, &stops); err != nil {
			return s, stop, err
		}
	}
	return s, stop, nil
}

func startRedis(ctx context.Context, o serverOptions, stops *[]func() error) (*redisServer, error) {
	url := o.RedisURL
	if url == "" {
		child, err := embedded.StartRedis(ctx, embedded.RedisOptions{Persist: o.AOF})
		if err != nil {
			return nil, err
		}
		*stops = append(*stops, func() error { return errors.Join(child.Kill(), child.Stop()) }) // nothing of it is to be kept
		url = child.URL()
	}
	r, err := connectRedis(ctx, url)
	if err != nil {
		return nil, err
	}
	*stops = append(*stops, r.close)
	return r, nil
}

func startPostgres(ctx context.Context, o serverOptions, stops *[]func() error) (*postgresServer, error) {
	url, pid := o.PostgresURL, 0
	if url == "" {
		child, err := startCluster(ctx, o.Log)
		if err != nil {
			return nil, err
		}
		*stops = append(*stops, child.stop)
		url, pid = child.url, child.pid
	}
	p, err := connectPostgres(ctx, url, pid)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return p, nil
}
