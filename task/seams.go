package task

type PeriodicOption struct{}
