package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/taktworks/takt/internal/bench"
	"github.com/taktworks/takt/task"
)

const taktName = "takt"

// taktArgs encodes as an array of 100 bytes with a text of taktText.
type taktArgs struct{ Data string }

const taktText = payloadBytes - 3 // one for the array, two for the length of the text

var (
	noop   = task.Define[taktArgs, task.None]("bench:Noop", task.Small)
	noopOK = task.Define[taktArgs, string]("bench:NoopOK", task.Small) // keeps a result
)

type taktPeer struct {
	*bench.Server
	prefix string
	client *task.Client
}

func openTakt(ctx context.Context, s servers) (Peer, error) {
	prefix := newName()
	client, err := task.Open(ctx, s.redis.URL, task.Options{Prefix: prefix, Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return nil, err
	}
	return &taktPeer{Server: s.redis, prefix: prefix, client: client}, nil
}

func (p *taktPeer) Submit(ctx context.Context, texts []string, results bool) error {
	if results {
		return submitTakt(ctx, p.client, noopOK, texts)
	}
	return submitTakt(ctx, p.client, noop, texts)
}

func submitTakt[R any](ctx context.Context, c *task.Client, t *task.Type[taktArgs, R], texts []string) error {
	if len(texts) == 1 {
		_, err := t.Submit(ctx, c, taktArgs{texts[0]})
		return err
	}
	args := make([]taktArgs, len(texts))
	for i, text := range texts {
		args[i].Data = text
	}
	_, err := t.SubmitMany(ctx, c, args)
	return err
}

func (p *taktPeer) Work(ctx context.Context, _ bool, handle func(string)) error {
	w, err := p.client.Worker(task.WorkerOptions{},
		noop.Handle(func(_ context.Context, j *task.Job[taktArgs]) (task.None, error) {
			handle(j.Args.Data)
			return task.None{}, nil
		}),
		noopOK.Handle(func(_ context.Context, j *task.Job[taktArgs]) (string, error) {
			handle(j.Args.Data)
			return resultText, nil
		}))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func (p *taktPeer) stream() string { return p.prefix + ":tasks:" + string(noop.Queue()) }

// Unsettled looks at the stream, which a task leaves when its end is written, and at those put off.
func (p *taktPeer) Unsettled(ctx context.Context) (int, error) {
	var sum int64
	for _, r := range p.Redis.DoMulti(ctx,
		p.Redis.B().Xlen().Key(p.stream()).Build(), p.Redis.B().Zcard().Key(p.prefix+":tasks:delayed").Build(), p.Redis.B().Hlen().Key(p.prefix+":tasks:dead").Build()) {
		n, err := r.AsInt64()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return int(sum), nil
}

func (p *taktPeer) Message(ctx context.Context) (int, error) {
	entries, err := p.Redis.Do(ctx, p.Redis.B().Xrange().Key(p.stream()).Start("-").End("+").Count(1).Build()).AsXRange()
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return 0, fmt.Errorf("no task waits in %s", p.stream())
	}
	return len(entries[0].FieldValues["data"]), nil
}

func (p *taktPeer) Reset(ctx context.Context) error { return p.Remove(ctx, p.prefix+":*") }

func (p *taktPeer) Close() error {
	p.client.Close()
	return p.Reset(context.Background())
}
