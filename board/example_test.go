package board_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taktworks/takt/board"
	"github.com/taktworks/takt/internal/embedded"
)

// exampleBoard starts a server and opens a board on it; stop ends both.
func exampleBoard() (ctx context.Context, b *board.Board, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	server, err := embedded.StartRedis(ctx, embedded.RedisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	b, err = board.Open(ctx, server.URL()+"?namespace=taskflow")
	if err != nil {
		log.Fatal(err)
	}
	return ctx, b, func() {
		if err := errors.Join(b.Close(), server.Stop()); err != nil {
			log.Print(err)
		}
		cancel()
	}
}

// Work is posted, claimed by one owner, and consumed.
func Example() {
	ctx, b, stop := exampleBoard()
	defer stop()
	_, err := b.PostBatch(ctx, []board.Draft{
		{Name: "resize", Details: map[string]any{"image": "cat.png", "width": 640}},
		{Name: "call back", Priority: board.High},
	})
	if err != nil {
		log.Fatal(err)
	}
	for {
		c, err := b.ClaimNext(ctx, "worker-1", board.ClaimOptions{})
		if errors.Is(err, board.ErrNothing) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Posting().Name, c.Posting().Priority, c.Posting().Details)
		if err := c.Consume(ctx); err != nil {
			log.Fatal(err)
		}
	}
	left, err := b.Count(ctx)
	fmt.Println(left, "left", err)
	// Output:
	// call back HIGH map[]
	// resize NORMAL map[image:cat.png width:640]
	// 0 left <nil>
}

// A second owner is told who has the posting, and gets it when that one gives it back.
func ExampleBoard_Claim() {
	ctx, b, stop := exampleBoard()
	defer stop()
	p, err := b.Post(ctx, board.Draft{Name: "resize"})
	if err != nil {
		log.Fatal(err)
	}
	first, err := b.Claim(ctx, p, "worker-1", board.ClaimOptions{ExactOwner: true})
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.Claim(ctx, p, "worker-2", board.ClaimOptions{})
	var claimed *board.ClaimedError
	fmt.Println(errors.As(err, &claimed), claimed.Owner)

	fmt.Println(first.Abandon(ctx), first.Context().Err())
	second, err := b.Claim(ctx, p, "worker-2", board.ClaimOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(second.Attempt(), second.Fence() > first.Fence())
	fmt.Println(second.Consume(ctx), errors.Is(first.Consume(ctx), board.ErrClaimLost))
	// Output:
	// true worker-1
	// <nil> context canceled
	// 2 true
	// <nil> true
}

// What cannot be done is put aside, and can be posted again.
func ExampleClaim_Trash() {
	ctx, b, stop := exampleBoard()
	defer stop()
	if _, err := b.Post(ctx, board.Draft{Name: "resize"}); err != nil {
		log.Fatal(err)
	}
	c, err := b.ClaimNext(ctx, "worker-1", board.ClaimOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Trash(ctx))
	rows, err := b.TrashList(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rows {
		fmt.Println(r.Name, r.State, b.Restore(ctx, r.Ref))
	}
	n, err := b.Count(ctx)
	fmt.Println(n, err)
	// Output:
	// <nil>
	// resize TRASHED <nil>
	// 1 <nil>
}

// A conductor works on postings as they come. What fails is given back, and tried again later.
func ExampleBoard_Conductor() {
	ctx, b, stop := exampleBoard()
	defer stop()
	conductor, err := b.Conductor(func(_ context.Context, c *board.Claim) error {
		if c.Posting().Name == "resize" && c.Attempt() == 1 {
			return errors.New("no memory")
		}
		return nil
	}, board.ConductorOptions{
		Name: "conductor-1", MaxDispatches: 3, Backoff: time.Millisecond,
		Observe: func(e board.ConductorEvent) {
			if e.Outcome != board.Started {
				fmt.Println(e.Claim.Posting().Name, e.Outcome, e.Err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.PostBatch(ctx, []board.Draft{{Name: "resize"}, {Name: "send"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := conductor.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// resize job_abandoned no memory
	// send job_consumed <nil>
	// resize job_consumed <nil>
}
