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

// loadExample reads the folder dir, or the built-in example if dir is "".
func loadExample(dir string) (*example, error) {
	var files fs.FS = gearboxcover.Files
	if dir != "" {
		files = os.DirFS(dir)
	}
	read := func(name string) ([]byte, error) {
		text, err := fs.ReadFile(files, name)
		if err != nil && dir != "" {
			return nil, fmt.Errorf("an example needs %s: %w", filepath.Join(dir, name), err)
		}
		return text, err
	}
	var e example
	text, err := read(ordersFile)
	if err != nil {
		return nil, err
	}
	lists, err := mes.ParseOrders(filepath.Join(dir, ordersFile), text)
	if err != nil {
		return nil, err
	}
	if text, err = read(configurationFile); err != nil {
		return nil, err
	}
	if e.configuration, err = station.ParseConfiguration(filepath.Join(dir, configurationFile), text, files); err != nil {
		return nil, err
	}
	if text, err = read(equipmentFile); err != nil {
		return nil, err
	}
	if e.equipment, err = station.ParseEquipment(filepath.Join(dir, equipmentFile), text); err != nil {
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
		return nil, fmt.Errorf("%s holds no job order", filepath.Join(dir, ordersFile))
	}
	return &e, nil
}
