package main

import (
	"context"
	"fmt"
	"time"

	"github.com/taktworks/takt/workflow"
)

type workflowCheckCmd struct {
	Grace time.Duration `help:"What is younger counts as work in hand." default:"30s"`
	JSON  bool          `name:"json" help:"One JSON object per broken invariant: key, problem, and next, what to do about it."`
}

func (c *workflowCheckCmd) Run(ctx context.Context, a *app) error {
	if c.Grace < 0 {
		return &exitError{exitUsage, fmt.Errorf("--grace is %v: must not be negative", c.Grace)}
	}
	return a.withWorkflows(ctx, func(client *workflow.Client) error {
		found, err := client.Check(ctx, c.Grace)
		if err != nil {
			return err
		}
		return violations(a, found, c.JSON, "nothing found: instances, queues, timers and indexes agree")
	})
}
