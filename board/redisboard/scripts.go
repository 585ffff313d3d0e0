package redisboard

import (
	"embed"

	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed *.lua
var files embed.FS

var (
	postScript       = script.Load(files, "redisboard/post")
	listScript       = script.LoadReader(files, "redisboard/list")
	printScript      = script.LoadReader(files, "redisboard/print")
	findScript       = script.LoadReader(files, "redisboard/find")
	claimScript      = script.Load(files, "redisboard/claim")
	extendScript     = script.Load(files, "redisboard/extend")
	finishScript     = script.Load(files, "redisboard/finish")
	restoreScript    = script.Load(files, "redisboard/restore")
	purgeScript      = script.Load(files, "redisboard/purge")
	quarantineScript = script.Load(files, "redisboard/quarantine")
	healScript       = script.Load(files, "redisboard/heal")
	registerScript   = script.Load(files, "redisboard/register")
)
