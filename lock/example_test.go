package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/lock"
)

// Two owners want one lock. The second is refused, waits in the line, and has it when the first lets go, with a higher fence.
func Example() {
	ctx := context.Background()
	server, err := embedded.StartMiniredis(ctx, embedded.MiniredisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	rdb, err := redis.Connect(ctx, redis.Options{URL: server.URL(), Embedded: true})
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	locker, err := lock.New(rdb, lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	press := lock.Mutex(lock.Object{Type: lock.Job, Key: "press-7"})
	first, err := locker.Try(ctx, []lock.Spec{press}, lock.TryOptions{Owner: "first"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = locker.Try(ctx, []lock.Spec{press}, lock.TryOptions{Owner: "second", Waiter: "second"})
	var refused *lock.HeldError
	fmt.Println(errors.As(err, &refused), refused.Key, refused.Owner)

	woken, err := first.Release(ctx)
	fmt.Println(woken, err, context.Cause(first.Context()))
	second, err := locker.Try(ctx, []lock.Spec{press}, lock.TryOptions{Owner: "second", Waiter: "second"})
	if err != nil {
		log.Fatal(err)
	}
	defer second.Release(ctx)
	fmt.Println(second.Owner(), second.Fence() > first.Fence())
	// Output:
	// true lock:mutex:job:press-7 first
	// [second] <nil> lock: released
	// second true
}

// Acquire waits for its turn; the work ends when the lock is lost.
func ExampleLocker_Acquire() {
	ctx := context.Background()
	server, err := embedded.StartMiniredis(ctx, embedded.MiniredisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	rdb, err := redis.Connect(ctx, redis.Options{URL: server.URL(), Embedded: true})
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	locker, err := lock.New(rdb, lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	held, err := locker.Acquire(ctx, lock.Write(lock.Object{Type: lock.Transformation, Key: "42"}))
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release(ctx)
	work, cancel := held.Guard(ctx)
	defer cancel()
	if _, err := locker.Break(ctx, "lock:rw:transformation:42"); err != nil { // as an operator may
		log.Fatal(err)
	}
	_ = held.Extend(ctx) // as happens by itself within a third of the time to live
	<-work.Done()
	fmt.Println(context.Cause(work))
	// Output:
	// lock: lock:rw:transformation:42 is lost: it expired, or was broken or deleted
}
