package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

type stationListCmd struct {
	JSON bool `name:"json" help:"One JSON object per station."`
}

// stationLine is one station, for programs. Resources are in the answer of show only.
type stationLine struct {
	jobstore.StationInfo
	Resources   map[isa95.ConfigKind][]string `json:"resources,omitempty"`
	WorkMasters any                           `json:"work_masters"` // ids; of show each with its recipe
}

// limitOf is MaxJobOrders for people.
func limitOf(s *jobstore.StationInfo) string {
	if s.MaxJobOrders == nil {
		return "-"
	}
	return fmt.Sprint(*s.MaxJobOrders)
}

func (c *stationListCmd) Run(ctx context.Context, a *app, store *jobstore.Store) error {
	stations, err := store.Stations(ctx)
	if err != nil {
		return err
	}
	scopes := slices.Sorted(maps.Keys(stations))
	contents, err := store.Contents(ctx, scopes, isa95.ConfigWorkMaster)
	if err != nil {
		return err
	}
	l := a.list(c.JSON, "SCOPE", "STATE", "JOB ORDERS", "MAX", "WORK MASTERS")
	for _, scope := range scopes {
		line := contents[scope].Station(scope, stations[scope])
		l.add(line, scope, line.State, line.Orders, limitOf(&line), few(line.WorkMasters))
	}
	return l.flush()
}

// few names things for a cell of a table.
func few[T ~string](names []T) string {
	const most = 3
	text := ""
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			text += ", "
		}
		text += string(name)
	}
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

type stationShowCmd struct {
	Scope string `arg:"" help:"The station."`
	JSON  bool   `name:"json" help:"One JSON object."`
}

func (c *stationShowCmd) Run(ctx context.Context, a *app) error {
	scope, err := isa95.ParseScope(c.Scope)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	return with(ctx, a.openStore, func(store *jobstore.Store) error {
		stations, err := store.Stations(ctx)
		if err != nil {
			return err
		}
		active, known := stations[scope]
		if !known {
			return &exitError{exitFailed, fmt.Errorf("no station %s has a configuration or job orders; see takt station list", scope)}
		}
		contents, err := store.Contents(ctx, []isa95.Scope{scope}, isa95.ConfigKinds()...)
		if err != nil {
			return err
		}
		has := contents[scope]
		recipes, err := recipesAt(ctx, store, scope, has.IDs[isa95.ConfigWorkMaster])
		if err != nil {
			return err
		}
		line := stationLine{StationInfo: has.Station(scope, active), WorkMasters: recipes}
		if c.JSON {
			line.Resources = has.IDs
			delete(has.IDs, isa95.ConfigWorkMaster)
			return printJSON(a.out, line)
		}
		printf(a.out, "%s  %s, job orders: %d, at most: %s\n\n", scope, line.State, line.Orders, limitOf(&line.StationInfo))
		t := newTable(a.out, "KIND", "ID", "VERSION", "RECIPE")
		for _, kind := range isa95.ConfigKinds() {
			if kind == isa95.ConfigWorkMaster {
				for _, r := range recipes {
					t.row(kind, r.WorkMaster, r.Version, r.recipe())
				}
				continue
			}
			for _, id := range has.IDs[kind] {
				t.row(kind, id)
			}
		}
		return t.flush()
	})
}

// recipesAt is what a station runs under the work masters that it has.
func recipesAt(ctx context.Context, store *jobstore.Store, scope isa95.Scope, ids []string) ([]*usedRecipe, error) {
	all := make([]*usedRecipe, len(ids))
	if len(ids) == 0 {
		return all, nil
	}
	masters := make([]isa95.WorkMasterID, len(ids))
	for i, id := range ids {
		masters[i] = isa95.WorkMasterID(id)
		all[i] = &usedRecipe{WorkMaster: masters[i]}
	}
	delivered, err := store.Delivered(ctx, scope, masters...)
	used := jobstore.UsedRecipes(delivered, nil)
	err = errors.Join(err, store.ReadRecipes(ctx, used...))
	for _, u := range used {
		if u.Read {
			all[slices.Index(masters, u.WorkMaster)] = &usedRecipe{u.WorkMaster, u.Version, u.SHA256, u.Foreign}
		}
	}
	return all, err
}

type stationDiffCmd struct {
	File string `arg:"" type:"existingfile" help:"YAML file, as of takt station apply."`
	JSON bool   `name:"json" help:"One JSON object per thing that the file or a station has."`
}

func (c *stationDiffCmd) Run(ctx context.Context, a *app) error {
	conf, err := a.loadConfiguration(c.File)
	if err != nil {
		return err
	}
	events, err := conf.Events("urn:takt:station-diff", time.Now())
	if err != nil {
		return err
	}
	pieces := make([]jobstore.Configuration, len(events))
	for i, e := range events {
		if pieces[i], err = jobcontrol.ReadConfiguration(e, isa95.UnknownMembers(a.UnknownMembers)); err != nil {
			return &exitError{exitUsage, fmt.Errorf("%s: %s for %s would be refused: %w", c.File, e.Type, e.Subject, err)}
		}
	}
	return with(ctx, a.openStore, func(store *jobstore.Store) error {
		found, err := store.Compare(ctx, pieces)
		if err != nil {
			return err
		}
		l, count := a.list(c.JSON, "SCOPE", "KIND", "ID", "CHANGE", "VALUE"), make(map[string]int)
		for _, f := range found {
			d := delivery{f.Scope, f.Kind, f.ID, f.Change, f.Before, f.After, f.Others}
			l.add(d, d.Scope, d.Kind, d.ID, d.Change, d.value())
			count[d.Change]++
		}
		if err := l.flush(); err != nil {
			return err
		}
		return c.verdict(count)
	})
}

// verdict is an error unless all is as in the file.
func (c *stationDiffCmd) verdict(count map[string]int) error {
	created, changed, extra := count[jobstore.DeliveryNew], count[jobstore.DeliveryChanged], count[jobstore.DeliveryExtra]
	next := ""
	if created+changed > 0 {
		next += "; takt station apply " + c.File + " brings what is new or changed"
	}
	if extra > 0 {
		next += "; apply takes nothing away: a configuration event with the method DELETE does"
	}
	if next == "" {
		return nil
	}
	return &exitError{exitFailed, fmt.Errorf("not as in %s: %d new, %d changed, %d extra, %d unchanged%s", c.File, created, changed, extra, count[jobstore.DeliveryUnchanged], next)}
}
