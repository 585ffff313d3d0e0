package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverStop is how long a worker may take to stop; river itself would wait for ever.
const riverStop = 30 * time.Second

// riverSetting is what a user would set; zero values are river's own defaults.
type riverSetting struct {
	workers        int
	cooldown, poll time.Duration
	fast           bool // InsertManyFast, by COPY, instead of InsertMany
	pool           int  // connections; 0 = the larger of 4 and the number of CPUs
	async          bool // synchronous_commit off
}

var (
	riverDefault = riverSetting{workers: 100}
	riverTuned   = riverSetting{workers: 2000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, fast: true, pool: 20}
	riverAsync   = func() riverSetting { s := riverTuned; s.async = true; return s }()
)

// riverArgs encodes as JSON of 100 bytes with a text of riverText.
type riverArgs struct {
	Data string `json:"data"`
}

const riverText = payloadBytes - len(`{"data":""}`)

func (riverArgs) Kind() string { return "bench_noop" }

// riverWorker is a no-op.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	results bool
	handle  func(string)
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	w.handle(j.Args.Data)
	if w.results {
		return river.RecordOutput(ctx, resultText)
	}
	return nil
}

type riverPeer struct {
	*postgresServer
	set    riverSetting
	schema string
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // submits only
	log    *slog.Logger
}

func openRiver(set riverSetting) func(context.Context, servers) (Peer, error) {
	return func(ctx context.Context, s servers) (_ Peer, err error) {
		config, err := pgxpool.ParseConfig(s.postgres.url)
		if err != nil {
			return nil, err
		}
		if set.pool > 0 {
			config.MaxConns = int32(set.pool)
		}
		if set.async {
			config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		}
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		p := &riverPeer{postgresServer: s.postgres, set: set, schema: newName(), pool: pool, log: quietly(s)}
		defer func() {
			if err != nil {
				err = errors.Join(err, p.Close())
			}
		}()
		return p, p.prepare(ctx)
	}
}

// prepare makes river's tables in a schema of its own.
func (p *riverPeer) prepare(ctx context.Context) error {
	if _, err := p.pool.Exec(ctx, "CREATE SCHEMA "+p.schema); err != nil {
		return err
	}
	driver := riverpgxv5.New(p.pool)
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: p.schema, Logger: p.log})
	if err != nil {
		return err
	}
	if _, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	p.client, err = river.NewClient(driver, &river.Config{Schema: p.schema, Logger: p.log})
	return err
}

func (p *riverPeer) Submit(ctx context.Context, texts []string, _ bool) error {
	if len(texts) == 1 {
		_, err := p.client.Insert(ctx, riverArgs{Data: texts[0]}, nil)
		return err
	}
	all := make([]river.InsertManyParams, len(texts))
	for i, text := range texts {
		all[i].Args = riverArgs{Data: text}
	}
	var err error
	if p.set.fast {
		_, err = p.client.InsertManyFast(ctx, all)
	} else {
		_, err = p.client.InsertMany(ctx, all)
	}
	return err
}

func (p *riverPeer) Work(ctx context.Context, results bool, handle func(string)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{results: results, handle: handle})
	client, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		FetchCooldown:     p.set.cooldown,
		FetchPollInterval: p.set.poll,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: p.set.workers}},
		Workers:           workers,
		Schema:            p.schema,
		Logger:            p.log,
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), riverStop)
	defer cancel()
	return client.Stop(stopping)
}

func (p *riverPeer) Unsettled(ctx context.Context) (n int, err error) {
	err = p.pool.QueryRow(ctx, "SELECT count(*) FROM "+p.schema+".river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')").Scan(&n)
	return n, err
}

func (p *riverPeer) Reset(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, "TRUNCATE "+p.schema+".river_job")
	return err
}

// Message is the payload: the rest of a row has no form of its own.
func (p *riverPeer) Message(context.Context) (int, error) { return payloadBytes, nil }

// Bytes is the table on disk with its indexes.
func (p *riverPeer) Bytes(ctx context.Context) (n int64, err error) {
	err = p.pool.QueryRow(ctx, "SELECT pg_total_relation_size(to_regclass($1::text))", p.schema+".river_job").Scan(&n)
	return n, err
}

func (p *riverPeer) Close() error {
	defer p.pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), riverStop)
	defer cancel()
	if _, err := p.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+p.schema+" CASCADE"); err != nil {
		return fmt.Errorf("schema %s is left: %w", p.schema, err)
	}
	return nil
}
