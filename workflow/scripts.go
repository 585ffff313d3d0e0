package workflow

import (
	_ "embed"

	"github.com/taktworks/takt/internal/redis/script"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed tick.lua
	tickLua string
	//go:embed instance.lua
	instanceLua string
	//go:embed fetch.lua
	fetchLua string
	//go:embed amiss.lua
	amissLua string
	//go:embed act.lua
	actLua string
	//go:embed begin.lua
	beginLua string
	//go:embed complete.lua
	completeLua string
	//go:embed settle.lua
	settleLua string
	//go:embed release.lua
	releaseLua string
	//go:embed extend.lua
	extendLua string
	//go:embed fire.lua
	fireLua string
	//go:embed terminate.lua
	terminateLua string
	//go:embed await.lua
	awaitLua string
	//go:embed remove.lua
	removeLua string
	//go:embed pause.lua
	pauseLua string
	//go:embed mend.lua
	mendLua string
	//go:embed gone.lua
	goneLua string
	//go:embed detail.lua
	detailLua string
	//go:embed due.lua
	dueLua string

	actScript       = script.New("workflow/act", commonLua+instanceLua+actLua)
	beginScript     = script.New("workflow/begin", commonLua+fetchLua+beginLua)
	completeScript  = script.New("workflow/complete", commonLua+tickLua+instanceLua+fetchLua+completeLua)
	settleScript    = script.New("workflow/settle", commonLua+fetchLua+settleLua)
	releaseScript   = script.New("workflow/release", commonLua+releaseLua)
	extendScript    = script.New("workflow/extend", commonLua+extendLua)
	fireScript      = script.New("workflow/fire", commonLua+tickLua+amissLua+fireLua)
	terminateScript = script.New("workflow/terminate", commonLua+instanceLua+terminateLua)
	awaitScript     = script.New("workflow/await", commonLua+awaitLua)
	removeScript    = script.New("workflow/remove", commonLua+removeLua)
	pauseScript     = script.New("workflow/pause", commonLua+pauseLua)
	mendScript      = script.New("workflow/mend", commonLua+amissLua+mendLua)
	goneScript      = script.New("workflow/gone", commonLua+goneLua)
	detailScript    = script.NewReader("workflow/detail", commonLua+detailLua)
	dueScript       = script.New("workflow/due", commonLua+tickLua+dueLua)
)
