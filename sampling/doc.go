// Package sampling keeps figures of the whole installation, one sample a minute for 24 hours, and shows the last one as gauges, all of them as charts, and by the last one whether the plant is fine.
//
// One process of all samples: the one that has the lease. Reading is bounded; nothing is written but the sample, and no command is added to what an order, a task or a step costs.
package sampling
