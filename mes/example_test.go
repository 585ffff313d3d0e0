package mes_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
)

// An MES connector: orders go out, results come in, and nothing is lost while the connector is away.
func ExampleClient_Follow() {
	connector := func(ctx context.Context) error {
		memory, err := mes.OpenMemory("mes-memory.json")
		if err != nil {
			return err
		}
		defer memory.Close()
		client, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: "mqtt://broker:1883", ClientID: "mes-1"}})
		if err != nil {
			return err
		}
		go func() { _ = client.Run(ctx) }()
		order := &isa95.JobOrder{JobOrderID: "JO-7", WorkMasterID: []isa95.WorkMasterRef{{ID: "WM-GEARBOX-COVER-3"}}}
		store := func(ctx context.Context) error {
			_, err := client.StoreOnce(ctx, memory, mes.Call{Scope: "cell-07", Method: isa95.StoreAndStart, JobOrder: order})
			return err // a *mes.RefusedError says why
		}
		followed := make(chan error, 1)
		go func() {
			_, err := client.Follow(ctx, []isa95.Scope{"cell-07"}, mes.FollowOptions{
				Memory: memory,
				Clear:  true,
				OnResult: func(_ context.Context, scope isa95.Scope, r isa95.JobResponse) error {
					log.Printf("%s: %s is done", scope, r.JobOrderID) // store it, by r.JobResponseID
					return nil
				},
				OnLost: func(ctx context.Context, _ isa95.Scope, _ isa95.JobOrderID) error { return store(ctx) },
			})
			followed <- err
		}()
		if err := store(ctx); err != nil {
			return err
		}
		return <-followed
	}
	_ = connector
}

func ExampleParseOrders() {
	lists, err := mes.ParseOrders("orders.json", []byte(`{"Scope": "cell-07", "JobOrders": [{"JobOrderID": "JO-1"}, {"JobOrderID": "JO-2"}]}`))
	fmt.Println(lists[0].Scope, len(lists[0].JobOrders), err)
	_, err = mes.ParseOrders("orders.json", []byte("[\n  {\"JobOrderID\": \"JO-1\", \"Prioritty\": 5}\n]"))
	fmt.Fprintln(os.Stdout, err)
	// Output:
	// cell-07 2 <nil>
	// orders.json:2: [0]: member "Prioritty" is not known, did you mean Priority?
}
