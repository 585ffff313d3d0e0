package task

import "embed"

//go:embed *.lua
var files embed.FS
