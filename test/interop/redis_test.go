package interop_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	k := onRedis(t)
	within(t, k, postings, claims, waiting, trash, conductors, expiry, kills)
}

func TestRedisShared(t *testing.T) {
	t.Parallel()
	share(t, onRedis(t))
}

func onRedis(t *testing.T) kind {
	t.Helper()
	srv := testenv.Redis(t)
	host, port, _ := strings.Cut(srv.Addr, ":")
	number, err := strconv.Atoi(port)
	testenv.Must(t, err)
	return kind{name: "Redis", expires: true, fresh: func(t *testing.T) place {
		namespace := srv.Prefix(t)
		return place{
			url:  srv.URL + "?namespace=" + namespace,
			conf: map[string]any{"board": "redis", "host": host, "port": number, "namespace": namespace},
		}
	}}
}
