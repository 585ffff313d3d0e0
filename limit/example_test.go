package limit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/limit"
	"github.com/taktworks/takt/lock"
)

// Two at a time, and three a minute.
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

	site := lock.Object{Type: lock.Job, Key: "site-7"}
	limits := []lock.Spec{limit.Concurrency(site, 2), limit.Rate(site, 3, time.Minute)}
	for range 5 {
		held, err := locker.Try(ctx, limits, lock.TryOptions{})
		var refused *lock.HeldError
		if errors.As(err, &refused) {
			fmt.Println("refused:", refused.Spec, refused.RetryAfter > 50*time.Second)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("granted")
		if _, err := held.Release(ctx); err != nil { // the slot is free again, what was used of the rate stays used
			log.Fatal(err)
		}
	}
	// Output:
	// granted
	// granted
	// granted
	// refused: rate job:site-7, 3 per 1m0s true
	// refused: rate job:site-7, 3 per 1m0s true
}
