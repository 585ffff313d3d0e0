package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// TypeInfo is a type of task: how its tasks and runs ended since the counters were made, and what is set for it.
type TypeInfo struct {
	Name      string `json:"name"`
	Done      int64  `json:"done"`
	Dead      int64  `json:"dead"`
	Cancelled int64  `json:"cancelled"`
	Retried   int64  `json:"retried"`
	Blocked   int64  `json:"blocked"`
	Workers   int    `json:"workers"` // that live and have a handler for it
	Paused    bool   `json:"paused,omitempty"`
	Disabled  bool   `json:"disabled,omitempty"` // by the configuration
	Limits    string `json:"limits,omitempty"`   // that the configuration sets; "" = those of the program
}

// State is what keeps tasks of the type from being run: not enabled, paused or no worker; "" = nothing.
func (t TypeInfo) State() string {
	switch {
	case t.Disabled:
		return "not enabled"
	case t.Paused:
		return "paused"
	case t.Workers == 0:
		return "no worker"
	}
	return ""
}

// Types are the types that counters, workers and the configuration know of, by name.
func Types(s *Stats, workers []WorkerInfo, config Config) []TypeInfo {
	served := make(map[string]int)
	for _, names := range [][]string{slices.Collect(maps.Keys(s.ByType)), slices.Collect(maps.Keys(config.Common)), s.Paused} {
		for _, name := range names {
			served[name] = 0
		}
	}
	for _, w := range workers {
		for _, name := range w.Types {
			if w.Alive {
				served[name]++
			}
		}
	}
	types := make([]TypeInfo, 0, len(served))
	for _, name := range slices.Sorted(maps.Keys(served)) {
		n, set := s.ByType[name], config.For(name, "")
		t := TypeInfo{Name: name, Done: n[Done], Dead: n[Dead], Cancelled: n[Cancelled], Retried: n[Retried], Blocked: n[Blocked], Workers: served[name], Disabled: !set.IsEnabled()}
		t.Paused = !t.Disabled && slices.Contains(s.Paused, name)
		t.Limits = set.limits()
		types = append(types, t)
	}
	return types
}

// limits are those that are set, in words.
func (o *Override) limits() string {
	var all []string
	if o.ConcurrencyLimit != nil {
		all = append(all, fmt.Sprintf("%d at once", *o.ConcurrencyLimit))
	}
	if o.RateLimit != nil && o.RateWindow != nil {
		all = append(all, fmt.Sprintf("%d in %v", *o.RateLimit, *o.RateWindow))
	}
	if o.MaxRetries != nil {
		all = append(all, fmt.Sprintf("%d retries", *o.MaxRetries))
	}
	if o.Timeout != nil {
		all = append(all, fmt.Sprintf("time-out %v", *o.Timeout))
	}
	return strings.Join(all, ", ")
}
