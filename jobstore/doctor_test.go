package jobstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
)

func TestDoctorOnMemory(t *testing.T) {
	for name, c := range map[string]struct {
		config []string
		grade  jobstore.Grade
		says   string
	}{
		"no limit":     {nil, jobstore.Good, "noeviction"},
		"enough":       {[]string{"maxmemory 1gb"}, jobstore.Good, "1073741824 bytes"},
		"full":         {[]string{"maxmemory 1"}, jobstore.Bad, "new work is refused"},
		"volatile-ttl": {[]string{"maxmemory-policy volatile-ttl"}, jobstore.Unsafe, "leases, replies"},
		"allkeys-lru":  {[]string{"maxmemory-policy allkeys-lru"}, jobstore.Bad, "job orders and tasks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.StartRedis(t, embedded.RedisOptions{Config: c.config})
			s, err := jobstore.Open(t.Context(), jobstore.Options{URL: srv.URL, Prefix: srv.Prefix(t), Instance: "doctor"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			all, err := s.Doctor(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(all, func(d jobstore.Diagnosis) bool { return d.Subject == "eviction" })
			if d := all[i]; d.Grade != c.grade || !strings.Contains(d.Found, c.says) || (d.Next == "") != (d.Grade == jobstore.Good) {
				t.Errorf("%+v, want %s and %q", d, c.grade, c.says)
			}
		})
	}
}
