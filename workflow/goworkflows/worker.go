package goworkflows

import "github.com/cschleiden/go-workflows/worker"

// NewWorker is worker.New with a [Cache] of the size and lifetime that o says. nil = worker.DefaultOptions. A cache in o is used as it is.
func NewWorker(b *Backend, o *worker.Options) *worker.Worker {
	opts := worker.DefaultOptions
	if o != nil {
		opts = *o
	}
	opts.WorkflowWorkerOptions = b.withCache(opts.WorkflowWorkerOptions)
	return worker.New(b, &opts)
}

// NewWorkflowWorker is worker.NewWorkflowWorker, as NewWorker is worker.New. Activities have no executors: take worker.NewActivityWorker for them.
func NewWorkflowWorker(b *Backend, o *worker.WorkflowWorkerOptions) *worker.Worker {
	opts := worker.DefaultOptions.WorkflowWorkerOptions
	if o != nil {
		opts = *o
	}
	opts = b.withCache(opts)
	return worker.NewWorkflowWorker(b, &opts)
}

// NewWorkflowOrchestrator is worker.NewWorkflowOrchestrator, as NewWorker is worker.New.
func NewWorkflowOrchestrator(b *Backend, o *worker.Options) *worker.WorkflowOrchestrator {
	opts := worker.DefaultOptions
	if o != nil {
		opts = *o
	}
	opts.WorkflowWorkerOptions = b.withCache(opts.WorkflowWorkerOptions)
	return worker.NewWorkflowOrchestrator(b, &opts)
}

func (b *Backend) withCache(o worker.WorkflowWorkerOptions) worker.WorkflowWorkerOptions {
	if o.WorkflowExecutorCache == nil {
		o.WorkflowExecutorCache = NewCache(b, CacheOptions{Size: o.WorkflowExecutorCacheSize, TTL: o.WorkflowExecutorCacheTTL})
	}
	return o
}
