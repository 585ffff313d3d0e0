package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

type doctorCmd struct {
	JSON bool `name:"json" help:"One JSON object per line."`
}

func (doctorCmd) Help() string {
	return `Looks at the version, eviction, persistence and replication of Redis, and at what the broker says it can do: MQTT 5, retained messages, shared subscriptions, message expiry. The exit status is 1 if anything is bad, and 0 if it is only unsafe.

Examples:
  takt doctor --redis redis://127.0.0.1:6379 --mqtt mqtt://127.0.0.1:1883`
}

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	found, err := a.diagnose(ctx)
	if err != nil {
		return err
	}
	t := newTable(a.out, "", "WHAT", "FOUND", "NEXT")
	bad := 0
	for _, d := range found {
		if d.Grade == jobstore.Bad {
			bad++
		}
		if c.JSON {
			if err := printJSON(a.out, d); err != nil {
				return err
			}
			continue
		}
		t.row(string(d.Grade), d.Subject, d.Found, d.Next)
	}
	if !c.JSON {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if bad > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d findings are bad", bad, len(found))}
	}
	return nil
}

func (a *app) diagnose(ctx context.Context) ([]jobstore.Diagnosis, error) {
	store, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	found, err := store.Doctor(ctx)
	if err != nil {
		return nil, &exitError{exitNoAnswer, err}
	}
	conn, hangUp, err := a.dial(ctx, "takt-doctor-"+randomHex(4))
	if err != nil {
		return nil, err
	}
	defer hangUp()
	return append(found, diagnoseBroker(conn.Facts())...), nil
}

// diagnoseBroker judges what the broker said in CONNACK. It answered as an MQTT 5 broker, or there would be no connection.
func diagnoseBroker(f mqtt.Facts) []jobstore.Diagnosis {
	yes := func(subject string, has bool, missing string) jobstore.Diagnosis {
		if has {
			return jobstore.Diagnosis{Subject: subject, Grade: jobstore.Good, Found: "available"}
		}
		return jobstore.Diagnosis{Subject: subject, Grade: jobstore.Bad, Found: "not available: " + missing, Next: "allow it in the broker's settings, or use another broker"}
	}
	all := []jobstore.Diagnosis{
		{Subject: "broker", Grade: jobstore.Good, Found: "speaks MQTT 5"},
		yes("retained messages", f.RetainAvailable, "an MES that was away would find no results"),
		yes("shared subscriptions", f.SharedSubscriptions, "only one instance could take commands"),
		yes("QoS 1", f.MaximumQoS >= 1, "messages could be lost"),
	}
	size := jobstore.Diagnosis{Subject: "packet size", Grade: jobstore.Good, Found: "no limit"}
	if f.MaximumPacketSize > 0 {
		size.Found = fmt.Sprintf("at most %d bytes", f.MaximumPacketSize)
		if f.MaximumPacketSize < 256<<10 {
			size.Grade, size.Next = jobstore.Unsafe, "allow 256 KiB at least: the state index of a station with 1,000 job orders needs it"
		}
	}
	all = append(all, size, jobstore.Diagnosis{
		Subject: "queues", Grade: jobstore.Good, Found: "cannot be seen from outside",
		Next: "with mosquitto set max_queued_messages 0 and max_inflight_messages 0: by default it drops what exceeds 1000, and waits for the slowest of 20; and set_tcp_nodelay true, without which each command waits 40 ms",
	})
	for i := range all {
		if !strings.HasPrefix(all[i].Subject, "broker") {
			all[i].Subject = "broker: " + all[i].Subject
		}
	}
	return all
}
