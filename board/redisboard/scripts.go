package redisboard

import (
	_ "embed"

	"github.com/taktworks/takt/internal/redis/script"
)

var (
	//go:embed post.lua
	postLua string
	//go:embed list.lua
	listLua string
	//go:embed print.lua
	printLua string
	//go:embed find.lua
	findLua string
	//go:embed claim.lua
	claimLua string
	//go:embed extend.lua
	extendLua string
	//go:embed finish.lua
	finishLua string
	//go:embed restore.lua
	restoreLua string
	//go:embed purge.lua
	purgeLua string
	//go:embed quarantine.lua
	quarantineLua string
	//go:embed heal.lua
	healLua string
	//go:embed register.lua
	registerLua string
)

var (
	postScript       = script.New("redisboard/post", postLua)
	listScript       = script.NewReader("redisboard/list", listLua)
	printScript      = script.NewReader("redisboard/print", printLua)
	findScript       = script.NewReader("redisboard/find", findLua)
	claimScript      = script.New("redisboard/claim", claimLua)
	extendScript     = script.New("redisboard/extend", extendLua)
	finishScript     = script.New("redisboard/finish", finishLua)
	restoreScript    = script.New("redisboard/restore", restoreLua)
	purgeScript      = script.New("redisboard/purge", purgeLua)
	quarantineScript = script.New("redisboard/quarantine", quarantineLua)
	healScript       = script.New("redisboard/heal", healLua)
	registerScript   = script.New("redisboard/register", registerLua)
)
