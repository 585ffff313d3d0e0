package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/taktworks/takt/task"
)

type taskConfigCmd struct {
	Show  taskConfigShowCmd  `cmd:"" looks:"" help:"Show what is set of task types at run time."`
	Set   taskConfigSetCmd   `cmd:"" help:"Set limits, retries, timeout, schedule or enabled of a type, without a restart."`
	Unset taskConfigUnsetCmd `cmd:"" help:"Take back what is set of a type."`
}

type taskConfigShowCmd struct {
	Name string `help:"What holds for tasks of this type: with --vo, what is set for the VO over what is set for all."`
	VO   string `name:"vo" help:"Tenant, with --name."`
	YAML bool   `name:"yaml" help:"YAML as takt task config set --file takes it."`
	JSON bool   `name:"json" help:"One JSON object with the members of the YAML."`
}

func (c *taskConfigShowCmd) Run(ctx context.Context, a *app) error {
	if c.VO != "" && c.Name == "" || c.YAML && c.JSON {
		return &exitError{exitUsage, errors.New("--vo goes with --name, and --yaml not with --json")}
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		config, err := client.Config(ctx)
		if err != nil {
			return err
		}
		if c.Name != "" {
			config = task.Config{Common: map[string]task.Override{c.Name: config.For(c.Name, c.VO)}}
		}
		if c.YAML {
			_, err := io.WriteString(a.out, config.String())
			return err
		}
		return a.showConfig(config, c.JSON)
	})
}

func (a *app) showConfig(config task.Config, asJSON bool) error {
	if asJSON {
		return printJSON(a.out, config)
	}
	t := newTable(a.out, "TASK", "VO", "ENABLED", "CONCURRENCY", "RATE", "WINDOW", "RETRIES", "TIMEOUT", "SCHEDULE")
	rows := func(vo string, all map[string]task.Override) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			o := all[name]
			t.row(name, vo, said(o.Enabled), said(o.ConcurrencyLimit), said(o.RateLimit), said(o.RateWindow), said(o.MaxRetries), said(o.Timeout), said(o.Schedule))
		}
	}
	rows("-", config.Common)
	for _, vo := range slices.Sorted(maps.Keys(config.VO)) {
		rows(vo, config.VO[vo])
	}
	return t.flush()
}

// said is a value that may be set.
func said[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

type taskConfigSetCmd struct {
	Name    string            `arg:"" optional:"" help:"Name of the type."`
	Fields  map[string]string `arg:"" optional:"" name:"field" mapsep:"none" help:"What to set, FIELD=VALUE: enabled, concurrency_limit, rate_limit, rate_window, max_retries, timeout, schedule."`
	VO      string            `name:"vo" help:"Set it for the tasks of this tenant only."`
	File    string            `help:"YAML or JSON file that takes the place of all that is set, - = standard input." placeholder:"FILE"`
	AnyName bool              `help:"Take names that no worker and no schedule has now, too."`
	JSON    bool              `name:"json" help:"Print what is set now as one JSON object."`
}

func (c *taskConfigSetCmd) Run(ctx context.Context, a *app) error {
	if (c.File == "") != (c.Name != "" && len(c.Fields) > 0) || c.File != "" && (c.Name != "" || c.VO != "") {
		return &exitError{exitUsage, errors.New("give a type and what to set, FIELD=VALUE, or a --file for all types")}
	}
	var whole *task.Config
	if c.File != "" {
		text, err := a.readInput(c.File, maxInput)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if len(bytes.TrimSpace(text)) == 0 { // most likely what was to write it has failed
			return &exitError{exitUsage, fmt.Errorf("--file %s is empty; {} takes back all that is set", c.File)}
		}
		config, err := task.ParseConfig(text)
		if err != nil {
			return &exitError{exitUsage, fmt.Errorf("--file %s: %w", c.File, err)}
		}
		whole = &config
	}
	return with(ctx, a.openTasks, func(client *task.Client) error {
		names := []string{c.Name}
		if whole != nil {
			names = namesOf(*whole)
		}
		if !c.AnyName {
			if err := someoneKnows(ctx, client, names); err != nil {
				return err
			}
		}
		if whole != nil {
			if err := client.SetConfig(ctx, *whole); err != nil {
				return err
			}
			return a.showConfig(*whole, c.JSON)
		}
		return a.changeConfig(ctx, client, c.JSON, func(all configTree) error {
			fields := all.of(c.Name, c.VO)
			for field, text := range c.Fields {
				fields[field] = scalar(text)
			}
			return nil
		})
	})
}

type taskConfigUnsetCmd struct {
	Name   string   `arg:"" help:"Name of the type."`
	Fields []string `arg:"" optional:"" name:"field" help:"What to take back; everything that is set of the type if none is named."`
	VO     string   `name:"vo" help:"Take back what is set for the tasks of this tenant."`
	JSON   bool     `name:"json" help:"Print what is set now as one JSON object."`
}

func (c *taskConfigUnsetCmd) Run(ctx context.Context, a *app, client *task.Client) error {
	return a.changeConfig(ctx, client, c.JSON, func(all configTree) error {
		fields := all.of(c.Name, c.VO)
		if len(fields) == 0 {
			return &exitError{exitRefused, fmt.Errorf("nothing is set of %s", where(c.Name, c.VO))}
		}
		if len(c.Fields) == 0 {
			clear(fields)
		}
		for _, field := range c.Fields {
			if _, ok := fields[field]; !ok {
				return &exitError{exitRefused, fmt.Errorf("%q is not set of %s; set are %s", field, where(c.Name, c.VO), strings.Join(slices.Sorted(maps.Keys(fields)), ", "))}
			}
			delete(fields, field)
		}
		return nil
	})
}

func where(name, vo string) string {
	if vo == "" {
		return name
	}
	return name + " for VO " + vo
}

// configTree is a task.Config as YAML has it, so that a field is changed by its name: of common by type, of vo_overrides by VO and type.
type configTree struct {
	Common map[string]map[string]any            `yaml:"common,omitempty"`
	VO     map[string]map[string]map[string]any `yaml:"vo_overrides,omitempty"`
}

// of is what is set of a type, to be changed in place.
func (t configTree) of(name, vo string) map[string]any {
	types := t.Common
	if vo != "" {
		if t.VO[vo] == nil {
			t.VO[vo] = make(map[string]map[string]any)
		}
		types = t.VO[vo]
	}
	if types[name] == nil {
		types[name] = make(map[string]any)
	}
	return types[name]
}

// prune takes types and VOs out of which nothing is set.
func (t configTree) prune() {
	empty := func(_ string, fields map[string]any) bool { return len(fields) == 0 }
	maps.DeleteFunc(t.Common, empty)
	maps.DeleteFunc(t.VO, func(_ string, types map[string]map[string]any) bool {
		maps.DeleteFunc(types, empty)
		return len(types) == 0
	})
}

// scalar is a value as YAML would have it: a truth value, a number, or else text.
func scalar(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// changeConfig has change edit what is set, and gives it back to the workers.
func (a *app) changeConfig(ctx context.Context, client *task.Client, asJSON bool, change func(configTree) error) error {
	var config task.Config
	err := client.ChangeConfig(ctx, func(now task.Config) (task.Config, error) {
		tree := configTree{Common: make(map[string]map[string]any), VO: make(map[string]map[string]map[string]any)}
		if err := yaml.Unmarshal([]byte(now.String()), &tree); err != nil {
			return now, err
		}
		if err := change(tree); err != nil {
			return now, err
		}
		tree.prune()
		text, err := yaml.Marshal(tree)
		if err != nil {
			return now, err
		}
		if config, err = task.ParseConfig(text); err != nil {
			return now, &exitError{exitUsage, err}
		}
		return config, nil
	})
	if err != nil {
		return err
	}
	return a.showConfig(config, asJSON)
}

// someoneKnows refuses names that no worker has a handler for and no schedule submits.
func someoneKnows(ctx context.Context, client *task.Client, names []string) error {
	workers, err := client.Workers(ctx)
	if err != nil {
		return err
	}
	schedules, err := client.Schedules(ctx)
	if err != nil {
		return err
	}
	known := []string{}
	for _, w := range workers {
		known = append(known, w.Types...)
	}
	for _, s := range schedules {
		known = append(known, s.Task)
	}
	slices.Sort(known)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return &exitError{exitUsage, fmt.Errorf("there is no worker and no schedule for a task %q now; there are %q; say --any-name if one will come", name, slices.Compact(known))}
		}
	}
	return nil
}

// namesOf are the types that a configuration says something of.
func namesOf(c task.Config) []string {
	names := slices.Collect(maps.Keys(c.Common))
	for _, types := range c.VO {
		names = slices.AppendSeq(names, maps.Keys(types))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
