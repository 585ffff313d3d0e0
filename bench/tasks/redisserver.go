package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

// redisServer looks at a Redis from outside.
type redisServer struct {
	url     string
	version string // redis-server 7.0.15
	rdb     rueidis.Client
}

func connectRedis(ctx context.Context, url string) (*redisServer, error) {
	rdb, err := redis.Connect(ctx, redis.Options{URL: url, ClientName: "bench"})
	if err != nil {
		return nil, err
	}
	r := &redisServer{url: url, rdb: rdb}
	info, err := r.info(ctx, "server")
	if err != nil {
		rdb.Close()
		return nil, err
	}
	if r.version = "valkey " + info["valkey_version"]; info["valkey_version"] == "" {
		r.version = "redis " + info["redis_version"]
	}
	return r, nil
}

func (r *redisServer) close() error {
	r.rdb.Close()
	return nil
}

// info is a section of INFO by field.
func (r *redisServer) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := r.rdb.Do(ctx, r.rdb.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, err
	}
	return infoFields(text), nil
}

func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Usage counts the commands inside scripts too, but not our INFO.
func (r *redisServer) Usage(ctx context.Context) (Usage, error) {
	stats, err := r.info(ctx, "commandstats")
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Commands: commandCalls(stats)}
	cpu, err := r.info(ctx, "cpu")
	if err != nil {
		return Usage{}, err
	}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(cpu[field], 64)
		if err != nil {
			return Usage{}, fmt.Errorf("INFO cpu: %s: %w", field, err)
		}
		u.CPU += time.Duration(seconds * float64(time.Second))
	}
	return u, nil
}

// commandCalls sums the calls of all commands but INFO.
func commandCalls(stats map[string]string) (sum int64) {
	for name, fields := range stats {
		if name == "cmdstat_info" {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			if text, ok := strings.CutPrefix(field, "calls="); ok {
				n, _ := strconv.ParseInt(text, 10, 64) // a number by the protocol of INFO
				sum += n
			}
		}
	}
	return sum
}

// Bytes is the memory in use without the buffers of connections, once what is freed in the background is free.
func (r *redisServer) Bytes(ctx context.Context) (int64, error) {
	for before := int64(-1); ; {
		info, err := r.info(ctx, "memory")
		if err != nil {
			return 0, err
		}
		used, err1 := strconv.ParseInt(info["used_memory"], 10, 64)
		clients, err2 := strconv.ParseInt(info["mem_clients_normal"], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, fmt.Errorf("INFO memory: %w", err)
		}
		now := used - clients
		if info["lazyfree_pending_objects"] == "0" && now == before {
			return now, nil
		}
		before = now
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return before, nil // a busy server; the last reading is as good as any
		}
	}
}

// remove deletes all keys of a pattern.
func (r *redisServer) remove(ctx context.Context, pattern string) error {
	for cursor := uint64(0); ; {
		page, err := r.rdb.Do(ctx, r.rdb.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		if len(page.Elements) > 0 {
			if err := r.rdb.Do(ctx, r.rdb.B().Del().Key(page.Elements...).Build()).Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
