package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis"
)

// Server is the Redis that is measured on, seen from outside.
type Server struct {
	URL     string
	Kind    string // of a server started here, as redis-server; else external
	Version string // redis 7.0.15
	Redis   rueidis.Client

	own *embedded.Server // nil = external
}

// startPatience bounds the start of a server.
const startPatience = time.Minute

// Open connects to the Redis at url. Without one it starts a server, in memory, of which Close leaves nothing.
func Open(ctx context.Context, url string) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	s := &Server{URL: url, Kind: "external"}
	var err error
	if url == "" {
		if s.own, err = embedded.StartRedis(ctx, embedded.RedisOptions{}); err != nil {
			return nil, err
		}
		s.URL, s.Kind = s.own.URL(), s.own.Kind
	}
	if s.Redis, err = redis.Connect(ctx, redis.Options{URL: s.URL, ClientName: "bench"}); err != nil {
		return nil, errors.Join(err, s.end())
	}
	info, err := s.info(ctx, "server")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.Version = "valkey " + info["valkey_version"]; info["valkey_version"] == "" {
		s.Version = "redis " + info["redis_version"]
	}
	return s, nil
}

// Close disconnects, and ends a server that was started.
func (s *Server) Close() error {
	s.Redis.Close()
	return s.end()
}

func (s *Server) end() error {
	if s.own == nil {
		return nil
	}
	return errors.Join(s.own.Kill(), s.own.Stop()) // nothing of it is to be kept
}

// Machine says what the figures were taken on: CPUs, versions.
func (s *Server) Machine() string {
	return fmt.Sprintf("%d CPUs, %s, %s.", runtime.NumCPU(), runtime.Version(), s.Version)
}

// Usage is what a server has spent since it started.
type Usage struct {
	CPU      time.Duration
	Commands int64
}

// info is a section of INFO by field.
func (s *Server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.Redis.Do(ctx, s.Redis.B().Info().Section(section).Build()).ToString()
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
func (s *Server) Usage(ctx context.Context) (Usage, error) {
	stats, err := s.info(ctx, "commandstats")
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Commands: commandCalls(stats)}
	cpu, err := s.info(ctx, "cpu")
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
func (s *Server) Bytes(ctx context.Context) (int64, error) {
	for before := int64(-1); ; {
		info, err := s.info(ctx, "memory")
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
		if !lifecycle.Sleep(ctx, 20*time.Millisecond) {
			return before, nil // a busy server; the last reading is as good as any
		}
	}
}

// Remove deletes all keys of a pattern.
func (s *Server) Remove(ctx context.Context, pattern string) error {
	return redis.Scan(ctx, s.Redis, pattern, func(keys []string) error {
		return s.Redis.Do(ctx, s.Redis.B().Del().Key(keys...).Build()).Error()
	})
}
