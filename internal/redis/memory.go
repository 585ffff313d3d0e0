package redis

import (
	"context"
	"log/slog"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Memory is what a server says of its memory in INFO memory and INFO stats. What it does not say is zero.
type Memory struct {
	Policy    string // maxmemory-policy
	Max, Used int64  // bytes; Max 0 = no limit
	Evicted   int64  // keys thrown away since the server was started
}

// ParseMemory reads the reply of INFO.
func ParseMemory(info string) (m Memory) {
	numbers := map[string]*int64{"maxmemory": &m.Max, "used_memory": &m.Used, "evicted_keys": &m.Evicted}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "maxmemory_policy" {
			m.Policy = value
		}
		if at := numbers[name]; at != nil {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				*at = n
			}
		}
	}
	return m
}

// warn says in the log what is wrong with the memory of a server that can be worked with nevertheless: that it is full, for work makes room, and that
// keys are thrown away, for there are servers where that cannot be changed. A server that does not answer INFO is not judged. One round trip.
func (o Options) warn(ctx context.Context, t target, rdb rueidis.Client) {
	if o.Log == nil || o.Embedded {
		return
	}
	info, err := rdb.Do(ctx, rdb.B().Info().Section("memory", "stats").Build()).ToString()
	if err != nil {
		o.Log.Debug("redis: the server does not tell of its memory", "error", err)
		return
	}
	m := ParseMemory(info)
	if m.Max == 0 {
		return
	}
	server := slog.String("server", t.where())
	if m.Policy != "noeviction" && m.Policy != "" {
		o.Log.Warn("redis: the server throws keys away when its memory is full, and with them work, results and locks: CONFIG SET maxmemory-policy noeviction", server,
			"policy", m.Policy, "maxmemory", m.Max, "evicted", m.Evicted)
	}
	if m.Used >= m.Max {
		o.Log.Warn("redis: the server is out of memory: new work is refused until there is room, raise maxmemory or remove data", server,
			"used", m.Used, "maxmemory", m.Max)
	}
}
