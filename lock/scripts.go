package lock

import (
	"embed"

	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed *.lua
var files embed.FS

var (
	takeScript  = script.Load(files, "lock/take", "common", "line")
	giveScript  = script.Load(files, "lock/give", "common", "line")
	renewScript = script.Load(files, "lock/renew", "common")
	leaveScript = script.Load(files, "lock/leave", "common", "line")
	listScript  = script.LoadReader(files, "lock/list", "common", "line", "info")
	breakScript = script.Load(files, "lock/break", "common", "line", "info")
)
