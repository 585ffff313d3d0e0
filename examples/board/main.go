// Command board posts pictures to a job board and resizes them. It needs a Redis, or a ZooKeeper; conductors of TaskFlow may share the board.
//
//	go run ./examples/board                                                  # redis-server on port 6379
//	go run ./examples/board --board zookeeper://127.0.0.1/takt-example/jobs
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/taktworks/takt/board"
)

func main() {
	url := flag.String("board", "redis://127.0.0.1:6379?namespace=takt-example", "URL of the board")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run posts three pictures and works until three postings are done.
func run(ctx context.Context, url string, out io.Writer) (err error) {
	b, err := board.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var drafts []board.Draft
	for _, image := range []string{"cat.png", "dog.png", "fox.png"} {
		drafts = append(drafts, board.Draft{Name: "resize", Details: map[string]any{"image": image}})
	}
	if _, err := b.PostBatch(ctx, drafts); err != nil {
		return err
	}
	resize := func(_ context.Context, c *board.Claim) error { // the context ends when the claim is lost
		_, err := fmt.Fprintln(out, "resized", c.Posting().Details["image"])
		return err // nil consumes the posting, an error gives it back
	}
	conductor, err := b.Conductor(resize, board.ConductorOptions{MaxDispatches: len(drafts)})
	if err != nil {
		return err
	}
	return conductor.Run(ctx)
}
