// Command mes is an MES: it sends a job order and takes results, across outages of either side and its own restarts. Run it beside `make dev`:
//
//	go run ./examples/mes
//
// It follows the station cell-07 until Ctrl-C. Start it as often as you like, one at a time: the order is made once, and its result is printed once, or twice
// if the program dies between the printing and the note that it did. What it knows is in my-mes.json.
//
// test/e2e kills it at each statement.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	memory, err := mes.OpenMemory("my-mes.json") // what this MES knows after a restart
	check(err)
	client, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: "mqtt://127.0.0.1:1883", ClientID: "my-mes"}})
	check(err)
	go client.Run(ctx) // holds the connections until ctx ends

	var order isa95.JobOrder
	check(isa95.Unmarshal([]byte(`{
		"JobOrderID": "MY-3",
		"WorkMasterID": [{"ID": "WM-GEARBOX-COVER-3"}],
		"JobOrderParameters": [{"ID": "mark", "Value": "laser"}, {"ID": "torque_min_nm", "Value": 82.5}]
	}`), &order))
	store := func(ctx context.Context) error { // sends the order if it never was
		_, err := client.StoreOnce(ctx, memory, mes.Call{Scope: "cell-07", Method: isa95.StoreAndStart, JobOrder: &order})
		return err // a *mes.RefusedError says why Takt refused it
	}

	followed := make(chan error)
	go func() { // first, for results of earlier runs
		_, err := client.Follow(ctx, []isa95.Scope{"cell-07"}, mes.FollowOptions{
			Memory: memory,
			Clear:  true,
			OnResult: func(_ context.Context, scope isa95.Scope, r isa95.JobResponse) error {
				fmt.Println(scope, r.JobOrderID, r.StartTime, r.EndTime) // store it; nil means that you have it
				return nil
			},
			OnLost: func(ctx context.Context, _ isa95.Scope, _ isa95.JobOrderID) error {
				return store(ctx) // Redis was set back: send the order again
			},
		})
		followed <- err
	}()
	check(store(ctx))
	check(<-followed)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
