package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	tokens "github.com/goccy/go-yaml/token"

	"github.com/taktworks/takt/internal/jsonscalar"
	"github.com/taktworks/takt/internal/utf8text"
	"github.com/taktworks/takt/lock"
	"github.com/taktworks/takt/schedule"
)

// Config is what operators set of task types, over what the types say of themselves. Its zero value sets nothing.
type Config struct {
	// Common holds for all tasks of a type, by its name.
	Common map[string]Override `yaml:"common,omitempty"`
	// VO holds for tasks with the label vo, by its value and the name of the type. What is set there replaces what Common sets, the rest is inherited. A limit that is
	// set for a VO counts the tasks of this VO alone.
	VO map[string]map[string]Override `yaml:"vo_overrides,omitempty"`
}

// Override is what is set of one type; nil = not set.
type Override struct {
	Enabled          *bool          `yaml:"enabled,omitempty"`           // false: its tasks are delayed until it is true, and periodic ones are not fired
	RateLimit        *int           `yaml:"rate_limit,omitempty"`        // how many may start in any RateWindow; 0 = any number
	RateWindow       *time.Duration `yaml:"rate_window,omitempty"`       // at least 1 ms
	ConcurrencyLimit *int           `yaml:"concurrency_limit,omitempty"` // how many may run at once; 0 = any number
	MaxRetries       *int           `yaml:"max_retries,omitempty"`       // runs after the first; a policy of the program's own only runs fewer
	Timeout          *time.Duration `yaml:"timeout,omitempty"`           // of a run; 0 = none
	Schedule         *string        `yaml:"schedule,omitempty"`          // of a periodic type, as schedule.Parse reads it: "every 5m", "cron 0 6 * * *"
}

// IsEnabled is what Enabled says; true if it is not set.
func (o Override) IsEnabled() bool { return o.Enabled == nil || *o.Enabled }

// For is what is set of a type for tasks of one VO; "" = tasks without.
func (c Config) For(name, vo string) Override {
	o := c.Common[name]
	if vo != "" {
		o = o.with(c.VO[vo][name])
	}
	return o
}

// with returns o with what over sets.
func (o Override) with(over Override) Override {
	return Override{
		cmp.Or(over.Enabled, o.Enabled), cmp.Or(over.RateLimit, o.RateLimit), cmp.Or(over.RateWindow, o.RateWindow), cmp.Or(over.ConcurrencyLimit, o.ConcurrencyLimit),
		cmp.Or(over.MaxRetries, o.MaxRetries), cmp.Or(over.Timeout, o.Timeout), cmp.Or(over.Schedule, o.Schedule),
	}
}

// Definition is a Type or a Handler: what a Config is checked against.
type Definition interface {
	Name() string
	definition() *spec
}

func (t *Type[T, R]) definition() *spec { return &t.spec }
func (h Handler) definition() *spec     { return h.spec }

// ParseConfig reads YAML:
//
//	common:
//	  jobs:CleanSandboxStore:
//	    enabled: true
//	    rate_limit: 10
//	    rate_window: 1m
//	    concurrency_limit: 5
//	    max_retries: 3
//	    timeout: 5m
//	    schedule: cron 0 6 * * *
//	vo_overrides:
//	  lhcb:
//	    jobs:CleanSandboxStore:
//	      concurrency_limit: 2
//
// All of it may be left out. Numbers are written as in JSON. A field that there is not, a name that is not among types and a value that is none are errors that name it. Without types, names are
// not checked.
func ParseConfig(text []byte, types ...Definition) (Config, error) {
	var c Config
	text, err := utf8text.Of(text)
	if err != nil {
		return Config{}, fmt.Errorf("task: configuration: %w", err)
	}
	if err := checkNumbers(text); err != nil {
		return Config{}, fmt.Errorf("task: configuration: %w", err)
	}
	err = yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&c)
	if err != nil && !errors.Is(err, io.EOF) { // empty text
		return Config{}, fmt.Errorf("task: configuration: %s", yaml.FormatError(err, false, true))
	}
	return c, c.Check(types...)
}

// wholeFields are the fields of an override that are whole numbers.
var wholeFields = []string{"rate_limit", "concurrency_limit", "max_retries"}

// checkNumbers refuses numbers that are not written as in JSON, and fractions in wholeFields: the library reads 014 as 12 and 2.7 as 2.
func checkNumbers(text []byte) error {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil // the decoder says the same
	}
	var w numbersWalk
	for _, doc := range parsed.Docs {
		if doc.Body != nil {
			ast.Walk(&w, doc.Body)
		}
	}
	return w.err
}

type numbersWalk struct{ err error } // the first

// Visit is part of ast.Visitor.
func (w *numbersWalk) Visit(n ast.Node) ast.Visitor {
	pair, ok := n.(*ast.MappingValueNode)
	if !ok || w.err != nil {
		return w
	}
	value := pair.Value
	if anchor, ok := value.(*ast.AnchorNode); ok {
		value = anchor.Value
	}
	switch value.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
	default:
		return w
	}
	token, key := value.GetToken(), pair.Key.GetToken().Value
	_, isText := value.(*ast.StringNode)
	isQuoted := isText && token.Type != tokens.StringType
	rule := ""
	switch whole := slices.Contains(wholeFields, key); {
	case whole && (isQuoted || !jsonscalar.IsWhole(token.Value)):
		rule = "must be a whole number, such as 3, without quotes"
	case jsonscalar.HasLeadingZero(token.Value) && !isQuoted:
		rule = "must not begin with a zero: quote it if it is text, else leave the zero out"
	case !isText && !jsonscalar.IsNumber(token.Value):
		rule = "must be a number as JSON writes it: quote it if it is text"
	default:
		return w
	}
	w.err = fmt.Errorf("line %d: %s %q %s", token.Position.Line, key, token.Value, rule)
	return w
}

// String is the configuration as ParseConfig reads it.
func (c Config) String() string {
	text, err := yaml.Marshal(c)
	if err != nil { // of maps, texts and numbers
		return err.Error()
	}
	return string(text)
}

// MarshalJSON is what String is, as JSON with the same members.
func (c Config) MarshalJSON() ([]byte, error) {
	var all map[string]any
	if err := yaml.Unmarshal([]byte(c.String()), &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// UnmarshalJSON is ParseConfig.
func (c *Config) UnmarshalJSON(text []byte) (err error) {
	*c, err = ParseConfig(text)
	return err
}

// Check says which name, field and value is unfit. Without types, names are not checked.
func (c Config) Check(types ...Definition) error {
	known := make(map[string]*spec, len(types))
	for _, t := range types {
		known[t.Name()] = t.definition()
	}
	for _, name := range slices.Sorted(maps.Keys(c.Common)) {
		if err := c.check(known, "common", name, ""); err != nil {
			return err
		}
	}
	for _, vo := range slices.Sorted(maps.Keys(c.VO)) {
		if vo == "" {
			return errors.New("task: configuration: vo_overrides: a VO without a name")
		}
		for _, name := range slices.Sorted(maps.Keys(c.VO[vo])) {
			if err := c.check(known, "vo_overrides."+vo, name, vo); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c Config) check(known map[string]*spec, where, name, vo string) error {
	s := known[name]
	switch {
	case s == nil && len(known) > 0:
		return fmt.Errorf("task: configuration: %s: there is no task %q; there are %q", where, name, slices.Sorted(maps.Keys(known)))
	case s == nil:
		s = &spec{name: name}
	}
	if err := checkName("name", name); err != nil {
		return fmt.Errorf("task: configuration: %s: %w", where, err)
	}
	if err := c.For(name, vo).check(s.limits); err != nil {
		return fmt.Errorf("task: configuration: %s.%s: %w", where, name, err)
	}
	return nil
}

// check says what is unfit in a type with limits of its own.
func (o Override) check(own limits) error {
	l := own.with(o)
	switch {
	case l.concurrency < 0:
		return fmt.Errorf("concurrency_limit %d: want 0 for none, or more", l.concurrency)
	case l.rate < 0:
		return fmt.Errorf("rate_limit %d: want 0 for none, or more", l.rate)
	case l.window < 0 || l.window > 0 && l.window < time.Millisecond:
		return fmt.Errorf("rate_window %v: want 1ms or more", l.window)
	case o.RateLimit != nil && l.rate > 0 && l.window == 0:
		return fmt.Errorf("rate_limit %d: without a rate_window it limits nothing", l.rate)
	case o.MaxRetries != nil && *o.MaxRetries < 0:
		return fmt.Errorf("max_retries %d: want 0 or more", *o.MaxRetries)
	case o.Timeout != nil && *o.Timeout < 0:
		return fmt.Errorf("timeout %v: want 0 for none, or more", *o.Timeout)
	}
	if o.Schedule != nil {
		if _, err := schedule.Parse(*o.Schedule); err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
	}
	for _, s := range l.specs(lock.Object{Type: lock.Task, Key: "x"}, lock.Object{Type: lock.Task, Key: "x"}) {
		if err := s.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// with returns l with what o sets.
func (l limits) with(o Override) limits {
	return limits{valueOr(o.ConcurrencyLimit, l.concurrency), valueOr(o.RateLimit, l.rate), valueOr(o.RateWindow, l.window)}
}

func valueOr[T any](p *T, v T) T {
	if p != nil {
		return *p
	}
	return v
}
