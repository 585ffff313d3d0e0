package goworkflows_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	gowf "github.com/cschleiden/go-workflows/workflow"
	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
)

// Books are activities whose effects are kept in Redis, as a system outside would: the same key has one effect, however often it is asked for.
type Books struct {
	rdb    rueidis.Client
	prefix string
}

func openBooks(ctx context.Context, url, prefix string) (*Books, error) {
	rdb, err := redis.Connect(ctx, redis.Options{URL: url, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	return &Books{rdb, prefix}, nil
}

// books refers to activities; it has no Redis.
var books *Books

const enter = `
redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 1 then redis.call('HINCRBY', KEYS[3], ARGV[1], 1) end
return tonumber(redis.call('HGET', KEYS[1], ARGV[1]))`

// Enter enters an amount under a key, and returns what stands there. What does not come through is tried again, as a driver would.
func (b *Books) Enter(ctx context.Context, key string, amount int) (int, error) {
	for {
		n, err := b.rdb.Do(ctx, b.rdb.B().Eval().Script(enter).Numkeys(3).Key(b.key("entries"), b.key("attempts"), b.key("effects")).Arg(key, fmt.Sprint(amount)).Build()).AsInt64()
		if !redis.Away(err) || ctx.Err() != nil {
			return int(n), err
		}
	}
}

// Charge enters an amount and finds that it cannot be had.
func (b *Books) Charge(ctx context.Context, key string, amount int) error {
	if _, err := b.Enter(ctx, key, amount); err != nil {
		return err
	}
	return gowf.NewPermanentError(errors.New("the card is refused"))
}

func (b *Books) key(name string) string { return b.prefix + ":books:" + name }

// counts are those of attempts or effects, by key.
func (b *Books) counts(t testing.TB, of string) map[string]int64 {
	t.Helper()
	n, err := b.rdb.Do(context.Background(), b.rdb.B().Hgetall().Key(b.key(of)).Build()).AsIntMap()
	testenv.Must(t, err)
	return n
}

// Sale is what is known of one, from execution to execution.
type Sale struct {
	Round, Amount int
	Log           []string // what was done
}

var again = gowf.ActivityOptions{RetryOptions: gowf.RetryOptions{MaxAttempts: 3, FirstRetryInterval: time.Millisecond, BackoffCoefficient: 1}}

// sale does one thing after the other, so that its history is the same wherever it runs: a signal, an activity that fails once, a timer; and as another execution
// a sub-workflow that signals back, an activity that fails for good, and what makes up for it, under a key that was made by chance.
func sale(ctx gowf.Context, o Sale) (Sale, error) {
	me := gowf.WorkflowInstance(ctx).InstanceID
	done := func(what string, n int) { o.Log = append(o.Log, fmt.Sprint(what, " ", n)) }
	if o.Round == 0 {
		n, _ := gowf.NewSignalChannel[int](ctx, "go").Receive(ctx)
		done("go", n)
		v, err := gowf.ExecuteActivity[int](ctx, again, flaky, o.Amount, 1).Get(ctx)
		if err != nil {
			return o, err
		}
		done("flaky", v)
		if err := gowf.Sleep(ctx, 2*time.Millisecond); err != nil {
			return o, err
		}
		if v, err = gowf.ExecuteActivity[int](ctx, again, books.Enter, me+" reserved", v+n).Get(ctx); err != nil {
			return o, err
		}
		done("reserved", v)
		o.Round++
		return o, gowf.ContinueAsNew(ctx, o)
	}
	packed := gowf.CreateSubWorkflowInstance[int](ctx, gowf.SubWorkflowOptions{InstanceID: me + "/pack"}, pack, me, o.Amount)
	boxes, _ := gowf.NewSignalChannel[int](ctx, "boxes").Receive(ctx)
	done("boxes", boxes)
	v, err := packed.Get(ctx)
	if err != nil {
		return o, err
	}
	done("packed", v)
	key, err := gowf.SideEffect(ctx, func(gowf.Context) string { return me + " charged " + uuid.NewString() }).Get(ctx)
	if err != nil {
		return o, err
	}
	_, err = gowf.ExecuteActivity[any](ctx, again, books.Charge, key, o.Amount).Get(ctx)
	if err == nil {
		return o, errors.New("the charge went through")
	}
	v, err = gowf.ExecuteActivity[int](ctx, again, books.Enter, me+" refunded", -o.Amount).Get(ctx)
	done("refunded", v)
	return o, err
}

// pack tells who started it how many boxes it takes, and fills them.
func pack(ctx gowf.Context, parent string, amount int) (int, error) {
	if _, err := gowf.SignalWorkflow(ctx, parent, "boxes", amount/3).Get(ctx); err != nil {
		return 0, err
	}
	return gowf.ExecuteActivity[int](ctx, again, books.Enter, parent+" packed", amount).Get(ctx)
}
