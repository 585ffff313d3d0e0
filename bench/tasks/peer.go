package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"time"

	"github.com/taktworks/takt/internal/bench"
)

// servers are what the peers run on.
type servers struct {
	redis *bench.Server
	log   io.Writer // for what peers warn about
}

// Peer is a task library with one setting. It only does what a user of the library would write; everything that is
// measured is measured around it, by the same code for all of them.
type Peer interface {
	// Submit stores one task per text: with the call for many if the library has one and there are several, else one by one.
	// results says that the tasks keep a result. It is called from many goroutines at once.
	Submit(ctx context.Context, texts []string, results bool) error

	// Work starts a worker that calls handle with the text of each task, and with results returns something to keep.
	// It blocks until ctx ends and the worker has stopped cleanly.
	Work(ctx context.Context, results bool, handle func(text string)) error

	// Unsettled counts the tasks that wait or are under way, those whose end is not yet written included.
	Unsettled(ctx context.Context) (int, error)

	// Message is the length of a waiting task's encoded message: the payload and what the library sends with it.
	Message(ctx context.Context) (int, error)

	// Reset removes everything that the peer has stored.
	Reset(ctx context.Context) error

	// Bytes is what the peer's store takes at the moment.
	Bytes(ctx context.Context) (int64, error)

	// Usage is what the peer's server has spent so far.
	Usage(ctx context.Context) (bench.Usage, error)

	// Close removes what is left and disconnects.
	Close() error
}

// entry is a peer that can be measured.
type entry struct {
	bench.Side

	// Share is the part of --n that a run takes, one in so many, so that runs of slow and fast peers take similar times.
	Share int
	// Text is the length of the text that makes the encoded payload 100 bytes long.
	Text int
	// Batches says that the library has a call that submits many tasks.
	Batches bool

	open func(ctx context.Context, s servers) (Peer, error)
}

// payloadBytes is the length of every encoded payload.
const payloadBytes = 100

// roster is every peer; Takt comes first, for the others are compared with it.
var roster = []entry{
	{Side: bench.Side{Name: taktName, Library: taktName, About: "as it comes, 50 slots"}, Share: 1, Text: taktText, Batches: true, open: openTakt},
	{Side: bench.Side{Name: "bare", Library: "bare", About: "no library: XADD, XREADGROUP, XACK and XDEL in pipelines, 50 goroutines"}, Share: 1, Text: payloadBytes, Batches: true, open: openBare},
	{Side: bench.Side{Name: "asynq", Library: "asynq", About: "as it comes"}, Share: 4, Text: payloadBytes, open: openAsynq(asynqSetting{})},
	{
		Side:  bench.Side{Name: "asynq_tuned", Library: "asynq", About: "concurrency 50, pool of 100 connections, polls every 10 ms"},
		Share: 4, Text: payloadBytes, open: openAsynq(asynqSetting{concurrency: 50, pool: 100, check: 10 * time.Millisecond}),
	},
}

// newName is a name for keys of a peer that no other run has.
func newName() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return "takt_bench_" + hex.EncodeToString(b[:])
}
