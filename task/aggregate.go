package task

type aggregation struct{}
