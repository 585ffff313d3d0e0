package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cschleiden/go-workflows/backend"

	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// settings are those that all processes of the example share.
type settings struct {
	redis, mqtt string // URLs
	prefix      string // of all keys
	data        string // folder of the books and of what takt and the cell keep
	inProcess   bool   // of takt: it looks for no redis-server and mosquitto
}

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})) // it is no news here that somebody is away

func (s settings) books() (books, error) {
	dir := filepath.Join(s.data, "books")
	return books{dir}, os.MkdirAll(dir, 0o700)
}

// open connects to the workflows. A worker that has died is noticed after two seconds.
func (s settings) open(ctx context.Context) (*goworkflows.Backend, error) {
	and := "?"
	if strings.Contains(s.redis, "?") {
		and = "&"
	}
	return goworkflows.Open(ctx, s.redis+and+"lease=2s&prefix="+s.prefix, backend.WithLogger(quiet))
}

// work is a worker process: it runs workflows and activities and brings them the results of job orders, until ctx ends. Any number of them may run; none knows anything that the others need.
func work(ctx context.Context, s settings, did func(what string)) (err error) {
	entries, err := s.books()
	if err != nil {
		return err
	}
	b, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	client, err := mes.New(mes.Options{
		MQTT:        mqtt.Options{URL: s.mqtt, ClientID: fmt.Sprintf("%s-worker-%d", s.prefix, os.Getpid())}, // of this worker alone
		Source:      "urn:example:order-to-cash",                                                             // of all: Takt knows a command by its source and its id, whichever worker repeats it
		RepeatAfter: time.Second, Log: quiet,
	})
	if err != nil {
		return err
	}
	w := goworkflows.NewWorker(b, nil)
	if err := errors.Join(w.RegisterWorkflow(orderToCash), w.RegisterActivity(&activities{books: entries, mes: client, did: did})); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // activities that are under way at the end still need the client
	ended := make(chan error, 1)
	go func() { ended <- client.Run(running) }()
	working, finish := context.WithCancel(ctx)
	err = w.Start(working)
	if err == nil {
		err = bridge(working, client, b, did)
		finish()
		err = errors.Join(err, w.WaitForCompletion())
	}
	finish()
	stop()
	return errors.Join(err, <-ended)
}
