package main

import (
	"time"

	"github.com/taktworks/takt/task"
)

// What those who submit tasks and those who handle them agree on: name, arguments, result, and how tasks of the type are treated.
var (
	// Mail is tried three times in all, and soon.
	Mail = task.Define[Letter, string]("office:Mail", task.Small, task.Timeout(10*time.Second),
		task.Retry(task.Backoff{Base: 100 * time.Millisecond, Retries: 2}))

	// Pack has two packers, who never work for one customer at the same time.
	Pack = task.Define[Parcel, int]("office:Pack", task.Limits(2, 0, 0),
		task.ExclusiveBy(func(p Parcel) []string { return []string{p.Customer} }))

	// Count counts one warehouse; Report runs once all counts have ended.
	Count  = task.Define[string, int]("office:Count", task.Background)
	Report = task.Define[string, string]("office:Report")

	// Stock looks at the shelves twice a second. A periodic type without locks of its own runs one task at a time. It has no result.
	Stock = task.Define[struct{}, task.None]("office:Stock", task.Realtime, task.Small, task.Every(500*time.Millisecond))
)

// Letter is what Mail sends.
type Letter struct{ To, Text string }

// Parcel is what Pack packs.
type Parcel struct {
	Customer string
	Number   int
}
