package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/taktworks/takt/internal/embedded"
)

// startPatience bounds the start of a server.
const startPatience = time.Minute

// servers are what the peers run on.
type servers struct {
	redis *redisServer
	log   io.Writer // for what peers warn about
}

// startServers connects to the Redis at url. Without one it starts a redis-server, with an append-only file if aof. stop ends what was begun and must be called.
func startServers(ctx context.Context, url string, aof bool, log io.Writer) (s servers, stop func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	end := func() error { return nil }
	if url == "" {
		child, err := embedded.StartRedis(ctx, embedded.RedisOptions{Persist: aof})
		if err != nil {
			return s, end, err
		}
		end = func() error { return errors.Join(child.Kill(), child.Stop()) } // nothing of it is to be kept
		url = child.URL()
	}
	r, err := connectRedis(ctx, url)
	if err != nil {
		return s, end, errors.Join(err, end())
	}
	return servers{redis: r, log: log}, func() error { return errors.Join(r.close(), end()) }, nil
}
