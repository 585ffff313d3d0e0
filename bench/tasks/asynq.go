package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/taktworks/takt/internal/bench"
)

const (
	asynqTask  = "bench:noop"
	asynqQueue = "takt-bench"
)

// asynqSetting is what a user would set; zero values are asynq's own defaults.
type asynqSetting struct {
	concurrency int           // 0 = number of CPUs
	pool        int           // connections; 0 = ten per CPU
	check       time.Duration // pause of an idle worker; 0 = 1 s
}

type asynqPeer struct {
	*bench.Server
	set     asynqSetting
	conn    asynq.RedisConnOpt
	client  *asynq.Client
	inspect *asynq.Inspector
	log     asynq.Logger
}

func openAsynq(set asynqSetting) func(context.Context, servers) (Peer, error) {
	return func(ctx context.Context, s servers) (Peer, error) {
		conn, err := asynq.ParseRedisURI(s.redis.URL)
		if err != nil {
			return nil, err
		}
		if plain, ok := conn.(asynq.RedisClientOpt); ok && set.pool > 0 {
			plain.PoolSize = set.pool
			conn = plain
		}
		p := &asynqPeer{Server: s.redis, set: set, conn: conn, log: asynqLog{s}}
		p.client, p.inspect = asynq.NewClient(conn), asynq.NewInspector(conn)
		return p, errors.Join(p.client.Ping(), p.Reset(ctx))
	}
}

func (p *asynqPeer) Submit(ctx context.Context, texts []string, results bool) error {
	opts := []asynq.Option{asynq.Queue(asynqQueue)}
	if results {
		opts = append(opts, asynq.Retention(time.Hour))
	}
	for _, text := range texts {
		if _, err := p.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, []byte(text)), opts...); err != nil {
			return err
		}
	}
	return nil
}

func (p *asynqPeer) Work(ctx context.Context, results bool, handle func(string)) error {
	server := asynq.NewServer(p.conn, asynq.Config{
		Concurrency:       p.set.concurrency,
		TaskCheckInterval: p.set.check,
		Queues:            map[string]int{asynqQueue: 1},
		Logger:            p.log,
		LogLevel:          asynq.WarnLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		handle(string(t.Payload()))
		if !results {
			return nil
		}
		_, err := t.ResultWriter().Write([]byte(resultText))
		return err
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (p *asynqPeer) Unsettled(context.Context) (int, error) {
	info, err := p.inspect.GetQueueInfo(asynqQueue)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Pending + info.Active + info.Scheduled + info.Retry, nil // Size counts those that are kept, too
}

func (p *asynqPeer) Message(ctx context.Context) (int, error) {
	tasks, err := p.inspect.ListPendingTasks(asynqQueue, asynq.PageSize(1))
	if err != nil {
		return 0, err
	}
	if len(tasks) == 0 {
		return 0, errors.New("no task waits")
	}
	n, err := p.Redis.Do(ctx, p.Redis.B().Hstrlen().Key("asynq:{"+asynqQueue+"}:t:"+tasks[0].ID).Field("msg").Build()).AsInt64()
	return int(n), err
}

// Reset leaves the name of the queue, which clients write only once.
func (p *asynqPeer) Reset(ctx context.Context) error {
	return p.Remove(ctx, "asynq:{"+asynqQueue+"}:*")
}

func (p *asynqPeer) Close() error {
	left := p.Reset(context.Background()) // a queue with tasks under way could not be deleted
	err := p.inspect.DeleteQueue(asynqQueue, true)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = nil
	}
	return errors.Join(left, err, p.inspect.Close(), p.client.Close())
}

// asynqLog shows what asynq warns about.
type asynqLog struct{ s servers }

func (l asynqLog) Debug(...any)      {}
func (l asynqLog) Info(...any)       {}
func (l asynqLog) Warn(args ...any)  { l.say(args) }
func (l asynqLog) Error(args ...any) { l.say(args) }
func (l asynqLog) Fatal(args ...any) { l.say(args) }
func (l asynqLog) say(args []any)    { fmt.Fprintln(l.s.log, "asynq:", fmt.Sprint(args...)) }
