package jobstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
)

// Diagnosis is one thing that was looked at.
type Diagnosis struct {
	Subject string `json:"subject"`
	Grade   Grade  `json:"grade"`
	Found   string `json:"found"`
	Next    string `json:"next,omitempty"` // what to do, for all but Good
}

// Grade says how bad a finding is.
type Grade string

// The grades: a Bad server loses work, an Unsafe one may lose some in a fault that others survive.
const (
	Good   Grade = "ok"
	Unsafe Grade = "unsafe"
	Bad    Grade = "bad"
)

// Doctor says whether the server is fit to keep work that must not be lost: version, eviction, persistence, replication. A
// server that hides its settings (CONFIG denied) is judged by what INFO shows.
func (s *Store) Doctor(ctx context.Context) ([]Diagnosis, error) {
	text, err := s.rdb.Do(ctx, s.rdb.B().Info().Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("jobstore: doctor: %w", err)
	}
	info := parseInfo(text)
	settings := make(map[string]string)
	for _, name := range []string{"appendfsync", "min-replicas-to-write", "save"} {
		pair, err := s.rdb.Do(ctx, s.rdb.B().ConfigGet().Parameter(name).Build()).AsStrMap()
		if _, denied := rueidis.IsRedisErr(err); err != nil && !denied {
			return nil, fmt.Errorf("jobstore: doctor: %w", err)
		}
		settings[name] = pair[name]
	}
	return []Diagnosis{version(info), eviction(redis.ParseMemory(text)), persistence(info, settings), replication(info, settings)}, nil
}

func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// version only names the server: what it can do was found out by Open, by trying.
func version(info map[string]string) Diagnosis {
	name, number := "Redis", info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		name, number = "Valkey", v
	}
	if number == "" {
		return Diagnosis{"version", Unsafe, "the server does not say what it is", "use Redis 7.0 or Valkey, or newer"}
	}
	return Diagnosis{Subject: "version", Grade: Good, Found: name + " " + number + " " + info["redis_mode"]}
}

func eviction(m redis.Memory) Diagnosis {
	const next = "CONFIG SET maxmemory-policy noeviction"
	found := fmt.Sprintf("%s, maxmemory %d bytes", m.Policy, m.Max)
	switch {
	case m.Policy == "":
		return Diagnosis{"eviction", Unsafe, "the server does not tell its maxmemory-policy", "see that it is noeviction"}
	case strings.HasPrefix(m.Policy, "volatile-"):
		return Diagnosis{"eviction", Unsafe, found + ": leases, replies, and results and groups of tasks may be thrown away", next}
	case m.Policy != "noeviction":
		return Diagnosis{"eviction", Bad, found + ": job orders and tasks may be thrown away", next}
	case m.Max > 0 && m.Used >= m.Max:
		return Diagnosis{"eviction", Bad, found + fmt.Sprintf(", %d are used: new work is refused", m.Used), "raise maxmemory or remove data"}
	}
	return Diagnosis{Subject: "eviction", Grade: Good, Found: found}
}

func persistence(info, settings map[string]string) Diagnosis {
	const next = "CONFIG SET appendonly yes; appendfsync everysec"
	switch {
	case info["aof_enabled"] == "1" && settings["appendfsync"] == "no":
		return Diagnosis{"persistence", Unsafe, "append-only file, flushed when the system likes", next}
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err":
		return Diagnosis{"persistence", Bad, "append-only file, but the last write failed", "free the disk, see the server's log"}
	case info["aof_enabled"] == "1":
		return Diagnosis{Subject: "persistence", Grade: Good, Found: strings.TrimSpace("append-only file, appendfsync " + settings["appendfsync"])}
	case settings["save"] != "":
		return Diagnosis{"persistence", Unsafe, "snapshots only: a crash loses what came after the last one", next}
	}
	return Diagnosis{"persistence", Bad, "none: a restart of the server loses everything", next}
}

func replication(info, settings map[string]string) Diagnosis {
	if info["role"] == "slave" {
		return Diagnosis{"replication", Bad, "the server is a replica and takes no writes", "name the master, or the sentinels that know it"}
	}
	replicas := info["connected_slaves"]
	if replicas == "" || replicas == "0" {
		return Diagnosis{Subject: "replication", Grade: Good, Found: "no replica: what the disk keeps is all there is"}
	}
	if m := settings["min-replicas-to-write"]; m == "" || m == "0" {
		return Diagnosis{"replication", Unsafe, replicas + " replicas, min-replicas-to-write is 0: a failover loses what was not yet copied",
			"CONFIG SET min-replicas-to-write 1, min-replicas-max-lag 1"}
	}
	return Diagnosis{Subject: "replication", Grade: Good, Found: replicas + " replicas, min-replicas-to-write " + settings["min-replicas-to-write"]}
}

// CommandsProcessed is how many commands the server has executed since its start, those inside scripts included.
func (s *Store) CommandsProcessed(ctx context.Context) (int64, error) {
	text, err := s.rdb.Do(ctx, s.rdb.B().Info().Section("stats").Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("jobstore: commands processed: %w", err)
	}
	return strconv.ParseInt(parseInfo(text)["total_commands_processed"], 10, 64)
}

// ProcessorTime is what the server has used since its start, without that of its children, which write snapshots.
func (s *Store) ProcessorTime(ctx context.Context) (time.Duration, error) {
	text, err := s.rdb.Do(ctx, s.rdb.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("jobstore: processor time: %w", err)
	}
	info := parseInfo(text)
	user, err := strconv.ParseFloat(info["used_cpu_user"], 64)
	if err != nil {
		return 0, fmt.Errorf("jobstore: processor time: used_cpu_user: %w", err)
	}
	system, err := strconv.ParseFloat(info["used_cpu_sys"], 64)
	if err != nil {
		return 0, fmt.Errorf("jobstore: processor time: used_cpu_sys: %w", err)
	}
	return time.Duration((user + system) * float64(time.Second)), nil
}

// Drop deletes every key of the prefix. It is for benchmarks, which have a prefix of their own.
func (s *Store) Drop(ctx context.Context) error {
	err := redis.Scan(ctx, s.rdb, redis.Glob(s.keys.Prefix())+":*", func(keys []string) error {
		for _, key := range keys {
			if err := s.rdb.Do(ctx, s.rdb.B().Unlink().Key(key).Build()).Error(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("jobstore: drop: %w", err)
	}
	return nil
}
