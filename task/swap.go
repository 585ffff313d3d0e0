package task

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/internal/redis/script"
)

var swapScript = script.Load(files, "task/swap")

// swap writes a field of a hash that still is what the caller read, and tells those who listen to the channel. read is the SHA-1 of that, "" = there was no such
// field; an empty text deletes it. false: it has changed, so read and decide again. One round trip.
func (c *Client) swap(ctx context.Context, hash, field, read, text, channel string) (bool, error) {
	return swapScript.Run(ctx, c.rdb, []string{hash}, field, read, text, channel).AsBool()
}

// swapUntil calls once until it has swapped, or fails: others change the same meanwhile. what is for the error of a ctx that ends.
func swapUntil(ctx context.Context, what string, once func() (done bool, err error)) error {
	for {
		done, err := once()
		if done || err != nil {
			return err
		}
		if !lifecycle.Sleep(ctx, rand.N(5*time.Millisecond)) {
			return fmt.Errorf("task: %s: others change it: %w", what, context.Cause(ctx))
		}
	}
}
