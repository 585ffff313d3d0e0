package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/zones"
	"github.com/taktworks/takt/jobstore"
)

type doctorCmd struct {
	Timeout time.Duration `help:"How long each of Redis, the broker and the probe of message sizes may take." default:"2s"`
	JSON    bool          `name:"json" help:"One JSON object per line."`
}

func (c *doctorCmd) Run(ctx context.Context, a *app) error {
	embedded := a.useEndpoints()
	if a.Redis == "" && a.MQTT == "" {
		return &exitError{exitUsage, errors.Join(a.needRedis(), a.needMQTT())}
	}
	return c.print(a, c.examine(ctx, a.Config, embedded))
}

// examine looks at both servers, and at this host.
func (c *doctorCmd) examine(ctx context.Context, cfg *Config, embedded bool) examined {
	// Each finding is a row, so the log stays quiet.
	quiet := slog.New(slog.DiscardHandler)
	broker := make(chan examined, 1)
	go func() { broker <- c.broker(ctx, cfg, quiet) }()
	found := c.redis(ctx, cfg.storeOptions(embedded, quiet))
	other := <-broker
	found.rows, found.silent = append(found.rows, other.rows...), found.silent || other.silent
	if found.looked && other.looked {
		found.rows = append(found.rows, diagnoseTopics(cfg.TopicPrefix, found.storeID, other))
	}
	found.rows = append(found.rows, diagnoseZones(zones.Find()))
	return found
}

// diagnoseZones judges where the time zones of schedules come from, on this host.
func diagnoseZones(from zones.Source) jobstore.Diagnosis {
	d := jobstore.Diagnosis{Subject: "time zones", Grade: jobstore.Good}
	switch {
	case from.Path == "":
		d.Found = "this host has none; those of takt are taken, release " + zones.Embedded
	case from.Release == "":
		d.Found = from.Path + " of this host, release unknown; those of takt are of " + zones.Embedded
	default:
		d.Found = from.Path + " of this host, release " + from.Release
	}
	if from.Older() {
		d.Grade, d.Found = jobstore.Unsafe, d.Found+", older than that of takt, "+zones.Embedded
		d.Next = "schedules may run an hour off where rules have changed: update the tzdata of each host with a scheduler or a worker, or set ZONEINFO to a folder of newer files"
	}
	return d
}

// examined is what was found out about one server.
type examined struct {
	rows   []jobstore.Diagnosis
	silent bool // it did not answer

	looked          bool   // what follows was looked for
	storeID, source string // id of the store in Redis; or the one that {prefix}/metadata names, and who said so
}

// diagnoseTopics judges whether the topics are those of this store, "" = it was never served; announced is what the broker has.
func diagnoseTopics(topicPrefix, storeID string, announced examined) jobstore.Diagnosis {
	d := jobstore.Diagnosis{Subject: "topics", Grade: jobstore.Good, Found: topicPrefix + "/# are those of this store"}
	switch {
	case announced.storeID == "":
		d.Found = "no store is announced on " + topicPrefix + "/metadata"
	case announced.storeID != storeID:
		d.Grade, d.Found = jobstore.Bad, fmt.Sprintf("%s/# are those of another store, %s, announced by %s", topicPrefix, announced.storeID, announced.source)
		d.Next = "takt serve on this store ends with an error: choose another --topic-prefix, or check --redis and --prefix; if this store takes the place of the other one, end all processes of that one and delete the retained message " + topicPrefix + "/metadata"
	}
	return d
}

// unreachable is one row: the server cannot be looked at.
func unreachable(subject, found, next string) examined {
	return examined{rows: []jobstore.Diagnosis{{Subject: subject, Grade: jobstore.Bad, Found: found, Next: next}}, silent: true}
}

// unnamed is one row: no server is named.
func unnamed(subject, without string, err error) examined {
	return examined{rows: []jobstore.Diagnosis{{Subject: subject, Grade: jobstore.Unsafe, Found: "not looked at: " + without, Next: err.Error()}}}
}

// within runs examine, and gives up waiting for it at the limit: a server that hangs may hold it longer.
func within(ctx context.Context, limit time.Duration, examine func(context.Context) examined, late examined) examined {
	ctx, cancel := context.WithTimeout(ctx, limit)
	done := make(chan examined, 1)
	go func() {
		defer cancel()
		done <- examine(ctx)
	}()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	select { // what ended with the limit has a better reason than that
	case found := <-done:
		return found
	case <-time.After(limit / 4):
		return late
	}
}

func (c *doctorCmd) redis(ctx context.Context, o jobstore.Options) examined {
	const subject = "redis"
	if o.URL == "" {
		return unnamed(subject, "Takt keeps everything in Redis", (&Config{}).needRedis())
	}
	o.Instance = "doctor-" + randomHex(4)
	return within(ctx, c.Timeout, func(ctx context.Context) examined {
		store, err := jobstore.Open(ctx, o)
		if err != nil {
			return redisTrouble(subject, err)
		}
		defer store.Close()
		rows, err := store.Doctor(ctx)
		id := ""
		if err == nil {
			id, err = store.ID(ctx)
		}
		if err != nil {
			return redisTrouble(subject, err)
		}
		rows = append([]jobstore.Diagnosis{{Subject: subject, Grade: jobstore.Good, Found: redis.Redact(o.URL) + " answers"}}, rows...)
		return examined{rows: rows, looked: true, storeID: id}
	}, unreachable(subject, fmt.Sprintf("%s does not answer within %v", redis.Redact(o.URL), c.Timeout), "check address, firewall and load of the server"))
}

func redisTrouble(subject string, err error) examined {
	if server, ok := errors.AsType[*redis.Error](err); ok {
		return unreachable(subject, server.Server+" "+server.Problem, server.Fix)
	}
	return unreachable(subject, err.Error(), "check --redis")
}

func (c *doctorCmd) print(a *app, found examined) error {
	l := a.list(c.JSON, "", "WHAT", "FOUND", "NEXT")
	if !c.JSON {
		printf(a.out, "Redis %s, key prefix %s; broker %s, topic prefix %s\n\n", named(redis.Redact, a.Redis), a.Prefix, named(brokerAddress, a.MQTT), a.TopicPrefix)
	}
	bad := 0
	for _, d := range found.rows {
		if d.Grade == jobstore.Bad {
			bad++
		}
		l.add(d, d.Grade, d.Subject, d.Found, d.Next)
	}
	if err := l.flush(); err != nil || bad == 0 {
		return err
	}
	code := exitFailed
	if found.silent {
		code = exitNoAnswer
	}
	return &exitError{code, fmt.Errorf("%d of %d findings are bad", bad, len(found.rows))}
}

// named is a URL as it may be shown.
func named(show func(string) string, raw string) string {
	if raw == "" {
		return "(none named)"
	}
	return show(raw)
}

// brokerAddress is the URL of a broker without user and password.
func brokerAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(a URL that cannot be read)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
