package workflow

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/internal/stream"
)

// Clean is what a worker does once a minute.
func Clean(ctx context.Context, c *Client) error {
	for _, s := range c.shards {
		if err := (&cleaner{s: s}).clean(ctx); err != nil {
			return err
		}
	}
	return nil
}

// StartDue starts what is due on the first shard, and says how long a worker would wait then.
func StartDue(ctx context.Context, c *Client) (time.Duration, error) {
	return (&keeper{s: c.shards[0]}).startDue(ctx)
}

// Fire fires what is due on the first shard, as far as one script does, and says how many those were.
func Fire(ctx context.Context, c *Client) (fired int64, err error) {
	f := &firer{s: c.shards[0]}
	fired, _, err = f.fire(ctx)
	return fired, err
}

// Hashes are those of the scripts, by name.
func Hashes() map[string]string {
	all := make(map[string]string)
	for _, s := range []*script.Script{
		actScript, beginScript, completeScript, settleScript, releaseScript, extendScript, fireScript, terminateScript, awaitScript, removeScript, pauseScript, mendScript,
	} {
		sum := sha1.Sum([]byte(s.Source()))
		all[strings.TrimPrefix(s.Name(), "workflow/")] = hex.EncodeToString(sum[:])
	}
	return all
}

// SetAside leaves a task of a queue alone, as one that takes a later version, while the worker does not run, or no longer.
func SetAside(w *Worker, queue string) error {
	_, err := w.newQueue(w.c.shards[0], tasks, queue).setAside(&stream.Entry{Fields: map[string]string{"i": "a"}}, errVersion)
	return err
}
