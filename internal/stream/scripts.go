package stream

import (
	_ "embed"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
)

var (
	//go:embed worker_acquire.lua
	acquireLua string
	//go:embed worker_renew.lua
	renewLua string
	//go:embed worker_release.lua
	releaseLua string
	//go:embed ack.lua
	ackLua string
	//go:embed begin.lua
	beginLua string
	//go:embed claim.lua
	claimLua string
	//go:embed dead.lua
	deadLua string
	//go:embed giveback.lua
	giveBackLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed read.lua
	readLua string
)

var (
	acquireScript  = script.New("stream/worker_acquire", acquireLua)
	renewScript    = script.New("stream/worker_renew", renewLua)
	releaseScript  = script.New("stream/worker_release", releaseLua)
	ackScript      = script.New("stream/ack", ackLua)
	beginScript    = script.New("stream/begin", beginLua)
	claimScript    = script.New("stream/claim", claimLua)
	deadScript     = script.New("stream/dead", deadLua)
	giveBackScript = script.New("stream/giveback", giveBackLua)
	leaveScript    = script.New("stream/leave", leaveLua)
	readScript     = script.New("stream/read", readLua)
)

// isOK says whether a script replied "ok": else the token, or the entry, belongs to another one.
func isOK(r rueidis.RedisResult) (bool, error) {
	reply, err := r.AsStrSlice()
	return len(reply) == 1 && reply[0] == "ok", err
}
