package stream

import (
	"embed"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed *.lua
var files embed.FS

var (
	acquireScript  = script.Load(files, "stream/worker_acquire")
	renewScript    = script.Load(files, "stream/worker_renew")
	releaseScript  = script.Load(files, "stream/worker_release")
	ackScript      = script.Load(files, "stream/ack")
	beginScript    = script.Load(files, "stream/begin")
	claimScript    = script.Load(files, "stream/claim")
	deadScript     = script.Load(files, "stream/dead")
	giveBackScript = script.Load(files, "stream/giveback")
	leaveScript    = script.Load(files, "stream/leave")
	readScript     = script.Load(files, "stream/read")
)

// isOK says whether a script replied "ok": else the token, or the entry, belongs to another one.
func isOK(r rueidis.RedisResult) (bool, error) {
	reply, err := r.AsStrSlice()
	return len(reply) == 1 && reply[0] == "ok", err
}
