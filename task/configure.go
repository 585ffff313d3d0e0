package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis/script"
	"github.com/taktworks/takt/lock"
)

const configField = "config" // of the control hash

// SetConfig gives all workers a configuration, in the place of the last one; they follow at once, or after five seconds, without a restart. The zero Config takes it back. It is checked as by
// Config.Check: give the types of all programs that run tasks under this prefix. Tasks of a type that is enabled now run within a minute.
func (c *Client) SetConfig(ctx context.Context, config Config, types ...Definition) error {
	return c.changeConfig(ctx, types, func(Config, error) (Config, error) { return config, nil }) // what is not one is replaced, too
}

// ChangeConfig is SetConfig for a part of the configuration: change gets what is set, and returns what is to be set; it may edit what it got. When others change it at the same moment, change is
// called again with what they made of it, so what they set stays. An error of change is returned as it is, and nothing is changed.
func (c *Client) ChangeConfig(ctx context.Context, change func(Config) (Config, error), types ...Definition) error {
	return c.changeConfig(ctx, types, func(now Config, unreadable error) (Config, error) {
		if unreadable != nil {
			return Config{}, unreadable
		}
		return change(now)
	})
}

func (c *Client) changeConfig(ctx context.Context, types []Definition, change func(now Config, unreadable error) (Config, error)) error {
	control := c.keys.TaskControl()
	return swapUntil(ctx, "set the configuration", func() (bool, error) {
		now, read, err := c.config(ctx)
		if err != nil && !errors.Is(err, errConfig) {
			return false, err
		}
		next, err := change(now, err)
		if err != nil {
			return false, err
		}
		text, err := next.stored(types)
		if err != nil {
			return false, err
		}
		done, err := c.swap(ctx, control, configField, read, text, control)
		if err != nil {
			return false, fmt.Errorf("task: set the configuration: %w", err)
		}
		return done, nil
	})
}

// stored is the configuration as it stands in Redis, "" = it sets nothing.
func (c Config) stored(types []Definition) (string, error) {
	if err := c.Check(types...); err != nil {
		return "", err
	}
	if len(c.Common)+len(c.VO) == 0 {
		return "", nil
	}
	text := c.String()
	again, err := ParseConfig([]byte(text)) // as workers do, which do not know all types
	if err != nil {
		return "", err
	}
	if again.String() != text {
		return "", fmt.Errorf("task: set the configuration: one of its names cannot be written in YAML:\n%s", text)
	}
	return text, nil
}

var errConfig = errors.New("task: the configuration in Redis")

// Config is the one that SetConfig gave the workers; the zero Config if there is none. One round trip.
func (c *Client) Config(ctx context.Context) (Config, error) {
	config, _, err := c.config(ctx)
	return config, err
}

// config is Config, and the SHA-1 of its text; errConfig: it cannot be read.
func (c *Client) config(ctx context.Context) (config Config, read string, err error) {
	text, err := c.rdb.Do(ctx, c.rdb.B().Hget().Key(c.keys.TaskControl()).Field(configField).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return Config{}, "", nil
	}
	if err != nil {
		return Config{}, "", fmt.Errorf("task: configuration: %w", err)
	}
	read = script.SHA1(text)
	if config, err = ParseConfig([]byte(text)); err != nil {
		return Config{}, read, fmt.Errorf("%w: %w", errConfig, err)
	}
	return config, read, nil
}

// settings are a Config as a worker follows it, and what is in Redis: the same, or what cannot be read.
type settings struct {
	Config
	text string
}

// readSettings reads what is in Redis. What is not valid is logged, and what was in force before stays.
func (c *control) readSettings(text string) *settings {
	last := c.current.Load().settings
	switch {
	case text == "":
		return nil
	case last != nil && last.text == text:
		return last
	}
	config, err := ParseConfig([]byte(text))
	if err != nil {
		c.w.log.Error("task: the configuration is not valid, the last one stays in force", "error", err)
		if config = (Config{}); last != nil {
			config = last.Config
		}
	}
	return &settings{config, text}
}

// configure finds out what is set for the task.
func (r *run) configure() {
	if r.config = r.worker.control.current.Load().settings; r.config != nil {
		r.override = new(r.config.For(r.msg.Name, r.vo()))
	}
}

// set is what is set for the task.
func (r *run) set() Override {
	if r.override == nil {
		return Override{}
	}
	return *r.override
}

func (r *run) vo() string { return r.msg.Labels.String("vo") }

// limits are those of the type, or of the type for the task's VO if they are set so.
func (r *run) limits() []lock.Spec {
	s := r.handler.spec
	l := s.limits.with(r.set())
	if l == (limits{}) {
		return nil
	}
	concurrency, rate := s.object(), s.object()
	if r.config != nil && r.vo() != "" {
		set := r.config.VO[r.vo()][s.name]
		if set.ConcurrencyLimit != nil {
			concurrency = s.object(r.vo())
		}
		if set.RateLimit != nil || set.RateWindow != nil {
			rate = s.object(r.vo())
		}
	}
	return l.specs(concurrency, rate)
}

// retry is the policy of the type with as many retries as are set.
func (r *run) retry() RetryPolicy {
	p, n := r.handler.spec.retry, r.set().MaxRetries
	if n == nil {
		return p
	}
	switch of := p.(type) {
	case NoRetry:
		return withRetries(Backoff{}, *n)
	case Backoff:
		return withRetries(of, *n)
	}
	return atMost{p, *n}
}

func withRetries(b Backoff, n int) RetryPolicy {
	if n == 0 {
		return NoRetry{}
	}
	b.Retries = n
	return b
}

// atMost is a policy that is cut short.
type atMost struct {
	RetryPolicy
	retries int
}

func (p atMost) Delay(attempt int, err error) (time.Duration, bool) {
	if attempt > p.retries {
		return 0, false
	}
	return p.RetryPolicy.Delay(attempt, err)
}

// MaxAttempts is the lower of the two.
func (p atMost) MaxAttempts() int {
	if n := maxAttempts(p.RetryPolicy); n > 0 {
		return min(n, p.retries+1)
	}
	return p.retries + 1
}
