package workflow

import (
	"embed"

	"github.com/taktworks/takt/internal/redis/script"
)

//go:embed *.lua
var files embed.FS

var (
	actScript       = script.Load(files, "workflow/act", "common", "instance")
	beginScript     = script.Load(files, "workflow/begin", "common", "fetch")
	completeScript  = script.Load(files, "workflow/complete", "common", "tick", "instance", "fetch")
	settleScript    = script.Load(files, "workflow/settle", "common", "fetch")
	releaseScript   = script.Load(files, "workflow/release", "common")
	extendScript    = script.Load(files, "workflow/extend", "common")
	fireScript      = script.Load(files, "workflow/fire", "common", "tick", "amiss")
	terminateScript = script.Load(files, "workflow/terminate", "common", "instance")
	awaitScript     = script.Load(files, "workflow/await", "common")
	removeScript    = script.Load(files, "workflow/remove", "common")
	pauseScript     = script.Load(files, "workflow/pause", "common")
	mendScript      = script.Load(files, "workflow/mend", "common", "amiss")
	goneScript      = script.Load(files, "workflow/gone", "common")
	detailScript    = script.LoadReader(files, "workflow/detail", "common")
	statsScript     = script.LoadReader(files, "workflow/stats", "common")
	dueScript       = script.Load(files, "workflow/due", "common", "tick")
)
