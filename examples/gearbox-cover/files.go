// Package gearboxcover holds the files of the example, so that `takt demo` has them wherever it runs.
package gearboxcover

import "embed"

// Files are the orders, the recipe, and what the station has and does.
//
//go:embed orders.json recipe.json station.yaml equipment.yaml
var Files embed.FS
