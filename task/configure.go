package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/lifecycle"
	"github.com/taktworks/takt/lock"
)

const (
	configField  = "config"         // of the control hash
	disabledHere = 10 * time.Second // until a task comes again that is disabled in this worker only
)

// SetConfig gives all workers a configuration, in the place of the last one; they follow at once, or after five seconds, without a restart. The zero Config takes it back. It is checked as by
// Config.Check: give the types of all programs that run tasks under this prefix. Tasks that were set aside because their type was not enabled, and is now, are due
// at once; after an error some may still be set aside: call it again.
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
	for {
		now, read, err := c.config(ctx)
		if err != nil && !errors.Is(err, errConfig) {
			return err
		}
		names := configNames(now)
		next, err := change(now, err)
		if err != nil {
			return err
		}
		text, err := next.stored(types)
		if err != nil {
			return err
		}
		done, err := c.swap(ctx, control, configField, read, text, control)
		if err != nil {
			return fmt.Errorf("task: set the configuration: %w", err)
		}
		if done {
			return c.unparkEnabled(ctx, next, append(names, configNames(next)...))
		}
		if !lifecycle.Sleep(ctx, rand.N(5*time.Millisecond)) {
			return fmt.Errorf("task: set the configuration: others change it: %w", context.Cause(ctx))
		}
	}
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
	if again, err := ParseConfig([]byte(text)); err != nil || again.String() != text {
		return "", fmt.Errorf("task: set the configuration: one of its names cannot be written in YAML:\n%s", text)
	}
	return text, nil
}

// unparkEnabled makes tasks due that were set aside, of those of the types that run now.
func (c *Client) unparkEnabled(ctx context.Context, config Config, names []string) error {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if config.runs(name) {
			if _, err := c.unpark(ctx, name, ""); err != nil {
				return err
			}
		}
	}
	return nil
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
	read = sha1hex(text)
	if config, err = ParseConfig([]byte(text)); err != nil {
		return Config{}, read, fmt.Errorf("%w: %w", errConfig, err)
	}
	return config, read, nil
}

// configNames are those that a configuration says something of.
func configNames(c Config) []string {
	set := make(map[string]bool)
	for name := range c.Common {
		set[name] = true
	}
	for _, of := range c.VO {
		for name := range of {
			set[name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// runs says whether tasks of the type run at all.
func (c Config) runs(name string) bool {
	if c.For(name, "").IsEnabled() {
		return true
	}
	for vo := range c.VO {
		if c.For(name, vo).IsEnabled() {
			return true
		}
	}
	return false
}

// runsForAll says whether tasks of the type run for every VO, and without one.
func (c Config) runsForAll(name string) bool {
	for vo := range c.VO {
		if !c.For(name, vo).IsEnabled() {
			return false
		}
	}
	return c.For(name, "").IsEnabled()
}

// settings are a Config as a worker follows it.
type settings struct {
	Config
	text string // as it stands in Redis; "" = it was given to this worker alone
	sum  string // its SHA-1 in hex
}

// Configure gives this worker alone a configuration, in the place of the last one, from the next task on. One that SetConfig gave to all wins as a whole. Every name must be
// that of a handler. Tasks of a type that is not enabled here are left to other workers.
func (w *Worker) Configure(c Config) error {
	types := make([]Definition, 0, len(w.handlers))
	for _, h := range w.handlers {
		types = append(types, *h)
	}
	if err := c.Check(types...); err != nil {
		return err
	}
	w.configured.Store(&settings{Config: c})
	return nil
}

// EffectiveConfig is what holds in this worker now: for each of its types, and for each VO that something is set for, every value, also those that nobody set. Its String is YAML.
func (w *Worker) EffectiveConfig() Config {
	var of Config
	if s := w.settings(); s != nil {
		of = s.Config
	}
	c := Config{Common: make(map[string]Override)}
	for name, h := range w.handlers {
		c.Common[name] = h.spec.defaults().with(of.For(name, ""))
	}
	for vo, all := range of.VO {
		for name := range all {
			if h := w.handlers[name]; h != nil {
				if c.VO == nil {
					c.VO = make(map[string]map[string]Override)
				}
				if c.VO[vo] == nil {
					c.VO[vo] = make(map[string]Override)
				}
				c.VO[vo][name] = h.spec.defaults().with(of.For(name, vo))
			}
		}
	}
	return c
}

// defaults are what a type says of itself.
func (s *spec) defaults() Override {
	o := Override{Enabled: new(true), ConcurrencyLimit: &s.limits.concurrency, RateLimit: &s.limits.rate, RateWindow: &s.limits.window, Timeout: new(max(s.timeout, 0))}
	if n := maxAttempts(s.retry); n > 0 {
		o.MaxRetries = new(n - 1)
	}
	return o
}

// settings are those in force, nil if there are none.
func (w *Worker) settings() *settings {
	if s := w.control.current.Load().settings; s != nil {
		return s
	}
	return w.configured.Load()
}

// readSettings reads what is in Redis. What is not valid is logged, and what was in force before stays.
func (c *control) readSettings(text string) *settings {
	last := c.current.Load().settings
	switch {
	case text == "":
		return nil
	case last != nil && last.text == text:
		return last
	case c.unreadable == text:
		return last
	}
	config, err := ParseConfig([]byte(text))
	if err != nil {
		c.unreadable = text
		c.w.log.Error("task: the configuration is not valid, the last one stays in force", "error", err)
		return last
	}
	return &settings{config, text, sha1hex(text)}
}

// configure finds out what is set for the task.
func (r *run) configure() {
	if r.config = r.worker.settings(); r.config != nil {
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

// disabled is the outcome of a task whose type is not enabled.
func (r *run) disabled() *outcome {
	if r.config.text == "" {
		return r.setAside(parking{}, disabledHere)
	}
	return r.setAside(parking{configField, r.config.sum}, parkedAgain)
}

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
