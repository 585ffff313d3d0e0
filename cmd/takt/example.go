package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	gearboxcover "github.com/taktworks/takt/examples/gearbox-cover"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

// scopedOrder is a job order and the station it is for.
type scopedOrder struct {
	Scope isa95.Scope
	Order *isa95.JobOrder
}

// example is a folder with all that a demo needs.
type example struct {
	orders        []scopedOrder
	configuration *station.Configuration
	equipment     *station.Equipment
}

// scopes are the stations that orders are for, in the order of first use.
func (e *example) scopes() []isa95.Scope {
	var all []isa95.Scope
	for _, o := range e.orders {
		if !slices.Contains(all, o.Scope) {
			all = append(all, o.Scope)
		}
	}
	return all
}

// The files of an example.
const (
	ordersFile        = "orders.json"
	configurationFile = "station.yaml"
	equipmentFile     = "equipment.yaml"
)

// folder is where the files of an example are.
type folder struct {
	fs.FS
	dir string // "" = the built-in example
}

func openExample(dir string) folder {
	if dir == "" {
		return folder{gearboxcover.Files, ""}
	}
	return folder{os.DirFS(dir), dir}
}

func (f folder) read(name string) ([]byte, error) {
	text, err := fs.ReadFile(f, name)
	if err != nil && f.dir != "" {
		return nil, fmt.Errorf("an example needs %s: %w", f.path(name), err)
	}
	return text, err
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// loadExample reads the folder dir, or the built-in example if dir is "".
func loadExample(dir string) (*example, error) {
	f := openExample(dir)
	text, err := f.read(ordersFile)
	if err != nil {
		return nil, err
	}
	lists, err := mes.ParseOrders(f.path(ordersFile), text)
	if err != nil {
		return nil, err
	}
	e, err := loadStation(dir)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		if list.Scope == "" {
			list.Scope = e.configuration.Scopes[0]
		}
		for i := range list.JobOrders {
			e.orders = append(e.orders, scopedOrder{list.Scope, &list.JobOrders[i]})
		}
	}
	if len(e.orders) == 0 {
		return nil, fmt.Errorf("%s holds no job order", f.path(ordersFile))
	}
	return e, nil
}

// loadStation is loadExample without the orders, for those who send none.
func loadStation(dir string) (*example, error) {
	f := openExample(dir)
	var e example
	text, err := f.read(configurationFile)
	if err != nil {
		return nil, err
	}
	if e.configuration, err = station.ParseConfiguration(f.path(configurationFile), text, f, recipe.Options{}); err != nil {
		return nil, err
	}
	if text, err = f.read(equipmentFile); err != nil {
		return nil, err
	}
	if e.equipment, err = station.ParseEquipment(f.path(equipmentFile), text); err != nil {
		return nil, err
	}
	return &e, nil
}
