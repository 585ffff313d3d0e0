package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/taktworks/takt/internal/topics"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/mqtt"
)

func (c *doctorCmd) broker(ctx context.Context, cfg *Config, log *slog.Logger) examined {
	const subject = "broker"
	if cfg.MQTT == "" {
		return unnamed(subject, "job orders need a broker; tasks, boards and workflows do not", cfg.needMQTT())
	}
	o := cfg.mqttOptions("takt-doctor-"+randomHex(4), 0, log)
	conn, err := mqtt.New(o)
	if err != nil {
		return unreachable(subject, err.Error(), "check --mqtt and the settings that begin with it")
	}
	running, hangUp := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- conn.Run(running) }()
	defer func() {
		hangUp()
		<-ended
	}()
	ready, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := conn.Ready(ready); err != nil {
		found, next := brokerTrouble(brokerAddress(cfg.MQTT), err, c.Timeout)
		return unreachable(subject, found, next)
	}
	rows := diagnoseBroker(conn.Facts())
	rows[0].Found = brokerAddress(cfg.MQTT) + " " + rows[0].Found
	probing, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	out := examined{}
	if retained, err := conn.Retained(ready, topics.Prefix(cfg.TopicPrefix).Metadata()); err == nil {
		out.looked = true
		for _, m := range retained {
			out.storeID, out.source = jobcontrol.Announced(m)
		}
	}
	p := sizeProbe{conn: conn, topic: o.PrivateTopic + "/probe", came: make(chan int, 64), patience: c.Timeout / 4}
	out.rows = append(rows, p.run(probing).diagnosis(conn.Facts().MaximumPacketSize))
	return out
}

// brokerTrouble says why there is no connection after so long, and what to do.
func brokerTrouble(address string, err error, after time.Duration) (found, next string) {
	var refused *mqtt.ConnectError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return address + " refuses connections", "start the broker, or name another with --mqtt URL"
	case errors.As(err, &refused) && refused.Code == 0x84:
		return address + " does not speak MQTT 5", "use a broker for MQTT 5"
	case errors.Is(err, mqtt.ErrNoMQTT5):
		return address + " speaks no MQTT 5, or port or TLS is wrong", "use a broker for MQTT 5, and check the port, and mqtt://, mqtts://, ws:// or wss://, in --mqtt"
	case errors.As(err, &refused):
		return fmt.Sprintf("%s refuses this user: %s", address, refused.Reason), "check --mqtt-username and --mqtt-password, and which client ids the user may have"
	}
	return fmt.Sprintf("%s does not answer as a broker within %v: %v", address, after, err), "check address, certificates, firewall and load of the broker"
}

// diagnoseBroker judges what the broker said in CONNACK. It answered as an MQTT 5 broker, or there would be no connection. The first row is the broker itself.
func diagnoseBroker(f mqtt.Facts) []jobstore.Diagnosis {
	yes := func(subject string, has bool, missing string) jobstore.Diagnosis {
		if has {
			return jobstore.Diagnosis{Subject: subject, Grade: jobstore.Good, Found: "available"}
		}
		return jobstore.Diagnosis{Subject: subject, Grade: jobstore.Bad, Found: "not available: " + missing, Next: "allow it in the broker's settings, or use another broker"}
	}
	return []jobstore.Diagnosis{
		{Subject: "broker", Grade: jobstore.Good, Found: "speaks MQTT 5"},
		yes("broker: retained messages", f.RetainAvailable, "an MES that was away would find no results"),
		yes("broker: shared subscriptions", f.SharedSubscriptions, "only one instance could take commands"),
		yes("broker: QoS 1", f.MaximumQoS >= 1, "messages could be lost"),
		{
			Subject: "broker: queues", Grade: jobstore.Good, Found: "cannot be seen from outside",
			Next: "with mosquitto set max_queued_messages 0 and max_inflight_messages 0: by default it drops what exceeds 1000, and waits for the slowest of 20; and set_tcp_nodelay true, without which each command waits 40 ms",
		},
	}
}

// Sizes that are tried, in bytes of the payload. 256 KiB is the state index of a station with 1,000 job orders, 1 MiB the largest command that Takt takes.
const (
	firstProbe  = 16 << 10
	neededProbe = 256 << 10
	lastProbe   = 1 << 20
)

// sizeProbe finds the largest message that a broker takes and hands on. CONNACK does not say it: a limit such as mosquitto's message_size_limit shows only in messages.
type sizeProbe struct {
	conn  *mqtt.Conn
	topic string   // of this connection alone
	came  chan int // bytes of what the broker handed on

	patience time.Duration // a message that was accepted and has not come by then was dropped
}

// probed is the outcome of a sizeProbe.
type probed struct {
	taken   int   // the largest payload that came back, 0 = none
	refused int   // the smallest that did not, 0 = all that were tried came back
	err     error // why no more could be tried
}

// run tries growing sizes, then narrows the limit down until it is exact or ctx ends.
func (p *sizeProbe) run(ctx context.Context) (out probed) {
	err := p.conn.Subscribe(ctx, mqtt.Subscription{Filter: p.topic, QoS: 1, Handle: func(_ context.Context, in *mqtt.Inbound) {
		select {
		case p.came <- len(in.Payload):
		default:
		}
		_ = in.Ack()
	}})
	if err != nil {
		return probed{err: err}
	}
	for size := firstProbe; size <= lastProbe && out.refused == 0; size *= 4 {
		if !p.try(ctx, size, &out) {
			return out
		}
	}
	for out.refused-out.taken > 1 {
		if !p.try(ctx, (out.taken+out.refused)/2, &out) {
			return out
		}
	}
	return out
}

// try sends one message and notes in out what became of it. false: no more can be tried.
func (p *sizeProbe) try(ctx context.Context, size int, out *probed) bool {
	err := takes(ctx, p.conn, p.topic, size)
	var refusal *mqtt.PublishError
	switch {
	case ctx.Err() != nil:
		out.err = ctx.Err()
		return false
	case errors.As(err, &refusal) && refusal.Code == codeTooLarge, is[*mqtt.SizeError](err):
		out.refused = size
		return true
	case errors.Is(err, mqtt.ErrDown): // some brokers answer by closing the connection
		out.refused = size
		return p.conn.Ready(ctx) == nil
	case err != nil:
		out.err = err
		return false
	}
	// Accepted is not handed on: some brokers drop what is too large without a word.
	quiet := time.NewTimer(p.patience)
	defer quiet.Stop()
	for {
		select {
		case n := <-p.came:
			if n == size {
				out.taken = size
				return true
			}
		case <-quiet.C:
			out.refused = size
			return true
		case <-ctx.Done():
			out.err = ctx.Err()
			return false
		}
	}
}

// codeTooLarge is the reason code "packet too large", MQTT 5 2.4.
const codeTooLarge = 0x95

// takes sends a message of so many bytes. An error says that the broker refused it, or why it is not known.
func takes(ctx context.Context, conn *mqtt.Conn, topic string, bytes int) error {
	m := mqtt.Message{Topic: topic, Payload: make([]byte, bytes), QoS: 1}
	err := conn.Publish(ctx, m)
	if errors.Is(err, mqtt.ErrDown) && conn.Ready(ctx) == nil { // mosquitto may close the connection some time after it refused a message
		err = conn.Publish(ctx, m)
	}
	return err
}

// diagnosis is the row of the outcome; limit is what the broker named in CONNACK, 0 = none.
func (p probed) diagnosis(limit int) jobstore.Diagnosis {
	const next = "raise the broker's limit to 256 KiB at least (mosquitto: message_size_limit, max_packet_size): the state index of a station with 1,000 job orders needs it, and a larger index is not published"
	d := jobstore.Diagnosis{Subject: "broker: message size", Grade: jobstore.Good}
	named := "it names no limit"
	if limit > 0 {
		named = fmt.Sprintf("it names a limit of %d bytes", limit)
	}
	switch {
	case p.refused > 0 && p.refused-p.taken == 1:
		d.Found = fmt.Sprintf("takes at most %d bytes, %s", p.taken, named)
	case p.refused > 0:
		d.Found = fmt.Sprintf("takes %d bytes, not %d, %s", p.taken, p.refused, named)
	case p.err == nil:
		d.Found = fmt.Sprintf("takes %d bytes, %s", p.taken, named)
	case p.taken > 0:
		d.Found = fmt.Sprintf("takes %d bytes; no larger one was tried: %v", p.taken, p.err)
	default:
		d.Found = fmt.Sprintf("not tried: %v", p.err)
	}
	if p.taken < neededProbe {
		d.Grade, d.Next = jobstore.Unsafe, next
		if p.refused == 0 {
			d.Next = "try again with a longer --timeout, as a user who may use {topic-prefix}/private/takt-doctor-*/#"
		}
	}
	return d
}
