package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed probe.lua
var probeLua string

var probeScript = script.New("redis/probe", probeLua)

// probe runs every command that Takt needs on keys of its own and returns an *Error naming those that do not work.
// It leaves nothing behind. One round trip, two if the server does not know the script yet.
func probe(ctx context.Context, t target, rdb rueidis.Client, prefix string) error {
	base := prefix + ":probe:" + uuid.NewString() + ":"
	bad, err := probeScript.Run(ctx, rdb, []string{base + "x", base + "s", base + "z", base + "m", base + "h"}).AsStrSlice()
	if err != nil {
		return err
	}
	if len(bad) < 2 {
		return nil
	}
	said := strings.TrimPrefix(bad[1], "-")
	// One cause for all of them is not about commands: a replica, a full disk.
	switch code, _, _ := strings.Cut(said, " "); code {
	case "READONLY", "MISCONF", "NOREPLICAS":
		return serverError(said)
	}
	var names []string
	denied := false
	for i := 0; i+1 < len(bad); i += 2 {
		if n := len(names); n == 0 || names[n-1] != bad[i] {
			names = append(names, bad[i])
		}
		denied = denied || strings.Contains(bad[i+1], "can't run this command") || strings.Contains(bad[i+1], "NOPERM") ||
			strings.Contains(bad[i+1], "ACL failure in script")
	}
	e := &Error{Server: t.where(), Problem: fmt.Sprintf("cannot do what Takt needs: %s (%s)", strings.Join(names, ", "), said),
		Fix: "use Redis 7.0 or later, or Valkey"}
	if denied {
		e.Fix = allow(prefix, false)
	}
	return e
}
