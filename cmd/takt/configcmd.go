package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/taktworks/takt/internal/telemetry"
)

// configCmd shows the settings of every command, not of one: the flags below it are those of `takt serve`.
type configCmd struct {
	ServeConfig
	JSON bool `name:"json" help:"One JSON object."`
}

// setting is one value in force.
type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, environment NAME, file PATH or default
}

func (c *configCmd) Run(a *app) error {
	all := a.inForce()
	if c.JSON {
		return printJSON(a.out, all)
	}
	t := newTable(a.out, "NAME", "VALUE", "FROM")
	for _, s := range all {
		t.row(s.Name, s.Value, s.Origin)
	}
	return t.flush()
}

// inForce lists the flags of the command that runs, with their values and origins. Secrets are hidden.
func (a *app) inForce() []setting {
	onCommandLine := make(map[string]bool)
	for _, p := range a.kong.Path {
		if p.Flag != nil && !p.Resolved {
			onCommandLine[p.Flag.Name] = true
		}
	}
	var all []setting
	for _, group := range a.kong.Selected().AllFlags(false) {
		for _, flag := range group {
			if flag.Name == "help" || flag.Name == "json" {
				continue
			}
			s := setting{Name: flag.Name, Value: a.show(flag), Origin: "default"}
			if _, origin := a.settings.lookup(flag.Name); origin != "" {
				s.Origin = origin
			}
			if onCommandLine[flag.Name] {
				s.Origin = "flag"
			}
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// given says whether a setting comes from anywhere but its default.
func (a *app) given(name string) bool {
	for _, s := range a.inForce() {
		if s.Name == name {
			return s.Origin != "default"
		}
	}
	return false
}

// show writes a value without what is secret in it.
func (a *app) show(flag *kong.Flag) string {
	value := fmt.Sprint(a.kong.FlagValue(flag))
	if list, ok := a.kong.FlagValue(flag).([]string); ok {
		value = strings.Join(list, ",")
	}
	if flag.Tag.Has("secret") && value != "" {
		return "(hidden)"
	}
	if before, _, query := strings.Cut(value, "?"); query && strings.Contains(before, "://") { // collectors take tokens there
		value = before + "?***"
	}
	return telemetry.Hide(value)
}
