package lock

import (
	_ "embed"

	"github.com/taktworks/takt/internal/redis/script"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed line.lua
	lineLua string
	//go:embed info.lua
	infoLua string
	//go:embed take.lua
	takeLua string
	//go:embed give.lua
	giveLua string
	//go:embed renew.lua
	renewLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed list.lua
	listLua string
	//go:embed break.lua
	breakLua string
)

var (
	takeScript  = script.New("lock/take", commonLua+lineLua+takeLua)
	giveScript  = script.New("lock/give", commonLua+lineLua+giveLua)
	renewScript = script.New("lock/renew", commonLua+renewLua)
	leaveScript = script.New("lock/leave", commonLua+lineLua+leaveLua)
	listScript  = script.NewReader("lock/list", commonLua+lineLua+infoLua+listLua)
	breakScript = script.New("lock/break", commonLua+lineLua+infoLua+breakLua)
)
