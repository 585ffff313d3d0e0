package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/bench"
)

const (
	bareGroup   = "workers"
	bareSlots   = 50
	bareBatch   = 256                    // entries of one read, and of one acknowledgement
	bareLinger  = time.Millisecond       // how long an acknowledgement waits for others
	bareFlights = 4                      // acknowledgements on their way
	bareBlock   = 100 * time.Millisecond // of one read; a worker that is told to stop waits for its end
	bareKept    = 24 * time.Hour         // results
	bareDelay   = 20 * time.Microsecond  // how long a single submit waits for others, which is cheaper for all
)

// barePeer is Redis and its client with nothing in between: no encoding, no retries, nobody takes over from a dead worker, and what fails ends the run.
type barePeer struct {
	*bench.Server
	stream  string
	many    rueidis.Client // for whoever sends much at once
	singles rueidis.Client // for single submits
}

func openBare(ctx context.Context, s servers) (_ Peer, err error) {
	p := &barePeer{Server: s.redis, stream: newName()}
	if p.many, err = bareClient(s.redis.URL, 0); err != nil {
		return nil, err
	}
	if p.singles, err = bareClient(s.redis.URL, bareDelay); err != nil {
		return nil, err
	}
	return p, p.Reset(ctx)
}

func bareClient(url string, delay time.Duration) (rueidis.Client, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o.DisableCache, o.ForceSingleClient = true, true
	o.PipelineMultiplex = -1 // one connection: the fuller it is, the cheaper for Redis
	o.MaxFlushDelay = delay
	return rueidis.NewClient(o)
}

func (p *barePeer) Submit(ctx context.Context, texts []string, _ bool) error {
	if len(texts) == 1 {
		return p.singles.Do(ctx, p.add(texts[0])).Error()
	}
	adds := make(rueidis.Commands, len(texts))
	for i, text := range texts {
		adds[i] = p.add(text)
	}
	return firstError(p.many.DoMulti(ctx, adds...))
}

func (p *barePeer) add(text string) rueidis.Completed {
	return p.many.B().Xadd().Key(p.stream).Id("*").FieldValue().FieldValue("data", text).Build()
}

func firstError(replies []rueidis.RedisResult) error {
	for _, r := range replies {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// bareTask is one entry of the stream.
type bareTask struct{ id, text string }

func (p *barePeer) Work(ctx context.Context, results bool, handle func(string)) error {
	tasks, ended := make(chan bareTask, bareBatch), make(chan string, bareBatch)
	var slots sync.WaitGroup
	for range bareSlots {
		slots.Go(func() {
			for t := range tasks {
				handle(t.text)
				ended <- t.id
			}
		})
	}
	settling := make(chan error, 1)
	go func() { settling <- p.settle(ended, results) }()
	err := p.read(ctx, tasks)
	close(tasks)
	slots.Wait()
	close(ended)
	return errors.Join(err, <-settling)
}

// read passes on what comes until ctx ends.
func (p *barePeer) read(ctx context.Context, tasks chan<- bareTask) error {
	for ctx.Err() == nil {
		reply, err := p.many.Do(context.WithoutCancel(ctx), p.many.B().Xreadgroup().Group(bareGroup, "worker").Count(bareBatch).Block(bareBlock.Milliseconds()).
			Streams().Key(p.stream).Id(">").Build()).ToMap()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return err
		}
		list := reply[p.stream]
		entries, err := list.ToArray()
		if err != nil {
			return err
		}
		for _, e := range entries {
			t, err := readBare(e)
			if err != nil {
				return err
			}
			tasks <- t
		}
	}
	return nil
}

// readBare reads an entry: its id, and an array of one field and its value.
func readBare(e rueidis.RedisMessage) (t bareTask, err error) {
	parts, err := e.ToArray()
	if err != nil || len(parts) != 2 {
		return t, fmt.Errorf("an entry of %d parts: %w", len(parts), cmp.Or(err, errNothing))
	}
	fields, err := parts[1].ToArray()
	if err != nil || len(fields) != 2 {
		return t, fmt.Errorf("an entry of %d names and values: %w", len(fields), cmp.Or(err, errNothing))
	}
	if t.id, err = parts[0].ToString(); err != nil {
		return t, err
	}
	t.text, err = fields[1].ToString()
	return t, err
}

// settle acknowledges and deletes what has ended, and keeps a result of each if that is wanted, until ended is closed.
func (p *barePeer) settle(ended <-chan string, results bool) error {
	free, errs := make(chan struct{}, bareFlights), make(chan error, 1)
	var flights sync.WaitGroup
	for {
		ids := gather(ended)
		if len(ids) == 0 {
			break
		}
		free <- struct{}{}
		flights.Go(func() {
			defer func() { <-free }()
			if err := p.acknowledge(ids, results); err != nil {
				select {
				case errs <- err:
				default: // one is enough
				}
			}
		})
	}
	flights.Wait()
	close(errs)
	return <-errs
}

// gather waits for a first id and then a little for more; none = ended is closed.
func gather(ended <-chan string) (ids []string) {
	id, ok := <-ended
	if !ok {
		return nil
	}
	ids = append(make([]string, 0, bareBatch), id)
	over := time.After(bareLinger)
	for len(ids) < bareBatch {
		select {
		case id, ok := <-ended:
			if !ok {
				return ids
			}
			ids = append(ids, id)
		case <-over:
			return ids
		}
	}
	return ids
}

func (p *barePeer) acknowledge(ids []string, results bool) error {
	b := p.many.B()
	commands := rueidis.Commands{
		b.Xack().Key(p.stream).Group(bareGroup).Id(ids...).Build(),
		b.Xdel().Key(p.stream).Id(ids...).Build(),
	}
	if results {
		for _, id := range ids {
			commands = append(commands, b.Set().Key(p.stream+":"+id).Value(resultText).Px(bareKept).Build())
		}
	}
	return firstError(p.many.DoMulti(context.Background(), commands...))
}

func (p *barePeer) Unsettled(ctx context.Context) (int, error) {
	n, err := p.Redis.Do(ctx, p.Redis.B().Xlen().Key(p.stream).Build()).AsInt64()
	return int(n), err
}

func (p *barePeer) Message(context.Context) (int, error) { return payloadBytes, nil }

// Reset leaves an empty stream with its group.
func (p *barePeer) Reset(ctx context.Context) error {
	if err := p.clear(ctx); err != nil {
		return err
	}
	return p.Redis.Do(ctx, p.Redis.B().XgroupCreate().Key(p.stream).Group(bareGroup).Id("0").Mkstream().Build()).Error()
}

func (p *barePeer) clear(ctx context.Context) error { return p.Remove(ctx, p.stream+"*") }

func (p *barePeer) Close() error {
	p.many.Close()
	p.singles.Close()
	return p.clear(context.Background())
}
