package station_test

import (
	"fmt"
	"testing/fstest"
	"time"

	"github.com/taktworks/takt/recipe"
	"github.com/taktworks/takt/station"
)

func ExampleParseEquipment() {
	e, err := station.ParseEquipment("equipment.yaml", []byte("scope: cell-07\ncommands: [{type: com.acme.press.v1, takes: 150ms..300ms}]"))
	fmt.Println(e.Scopes, e.Types(), err)
	_, err = station.ParseEquipment("equipment.yaml", []byte("scope: cell-07\ncommands:\n  - type: com.acme.press.v1\n    takes: 2 minutes"))
	fmt.Println(err)
	// Output:
	// [cell-07] [com.acme.press.v1] <nil>
	// equipment.yaml:4: commands[0].takes "2 minutes" must be a duration from 0s to 24h, such as 200ms, or a range, such as 150ms..300ms
}

func ExampleConfiguration_Events() {
	c, err := station.ParseConfiguration("station.yaml", []byte("scope: cell-07\nequipment: [press-07]\npersonnel: [assembler-2]"), fstest.MapFS{}, recipe.Options{})
	if err != nil {
		panic(err)
	}
	events, err := c.Events("urn:takt:cli", time.Now())
	if err != nil {
		panic(err)
	}
	for _, e := range events {
		fmt.Println(e.Subject, e.Type, string(e.Data))
	}
	// Output:
	// cell-07 com.github.aschamberger.ISA95-JOBCONTROL_V2.config.equipment.v1 {"ID":"press-07"}
	// cell-07 com.github.aschamberger.ISA95-JOBCONTROL_V2.config.personnel.v1 {"ID":"assembler-2"}
}
