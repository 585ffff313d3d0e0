// Command order-to-cash shows what durable workflows are for: each order of a customer is checked, made at a machine, shipped and invoiced, whatever fails or dies meanwhile. See README.md.
//
//	go run .                                                                      # everything inside, ends by itself
//	go run . --redis redis://127.0.0.1:6379 --mqtt mqtt://127.0.0.1:1883          # your servers; stays up until Ctrl-C
//	go run . --redis redis://127.0.0.1:6379 order ada cover housing:2             # beside the second: one more order
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
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// command does what a command line says.
func command(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("order-to-cash", flag.ExitOnError)
	flags.StringVar(&s.redis, "redis", "", "URL of a Redis or Valkey; without it one is started")
	flags.StringVar(&s.mqtt, "mqtt", "", "URL of an MQTT 5 broker; without it one is started")
	flags.StringVar(&s.prefix, "prefix", "takt", "what all keys in Redis begin with")
	flags.StringVar(&s.data, "data", "takt-data", "folder of what is kept outside Redis; a temporary one if nothing stays up")
	flags.BoolVar(&s.inProcess, "in-process", false, "run store and broker inside takt, also where redis-server and mosquitto are installed")
	_ = flags.Parse(args) // it exits on an error
	stays := s.redis != "" && s.mqtt != ""
	switch {
	case flags.Arg(0) == "worker" && stays:
		return work(ctx, s, func(what string) { fmt.Fprintln(out, what) })
	case flags.Arg(0) == "order" && s.redis != "" && flags.NArg() > 2:
		return orderByHand(ctx, s, flags.Arg(1), flags.Args()[2:], out)
	case flags.NArg() > 0:
		return fmt.Errorf("%q: must be nothing, worker with --redis and --mqtt, or order CUSTOMER PRODUCT[:QUANTITY]... with --redis", flags.Args())
	case stays:
		return everything(ctx, s, true, out)
	case s.redis != "" || s.mqtt != "":
		return errors.New("--redis and --mqtt: must be given both, or none")
	}
	dir, err := os.MkdirTemp("", "order-to-cash-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.data = dir
	return everything(ctx, s, false, out)
}

// everything starts what there is, has a day of orders, and says whether it went as expected. What stays stays until ctx ends.
func everything(ctx context.Context, s settings, stays bool, out io.Writer) (err error) {
	if s.data, err = filepath.Abs(s.data); err != nil {
		return err
	}
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return err
	}
	fmt.Fprintln(out, "Building and starting Takt ...")
	p, err := startPlant(ctx, s)
	defer func() { err = errors.Join(err, p.stop()) }()
	if err != nil {
		return err
	}
	b, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	first := 1001
	if stays {
		first = int(time.Now().UnixMilli()) // Takt still knows the job orders of the last run
	}
	err = (&day{plant: p, b: b, out: out, next: first}).run()
	if stays && err == nil {
		fmt.Fprintf(out, "\nAll of it stays up until Ctrl-C; the worker is process %d. README.md says what to try.\n", p.worker.cmd.Process.Pid)
		<-ctx.Done()
	}
	return err
}
