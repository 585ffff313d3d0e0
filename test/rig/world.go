package rig

import (
	"cmp"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// Options of a World. The zero value is a store and a broker in memory.
type Options struct {
	Redis     embedded.RedisOptions
	Store     *testenv.RedisServer // default: one of its own, by Redis; sentinels or a cluster have no Server
	Mosquitto embedded.MosquittoOptions
	WorkerTTL time.Duration // default 1 s
	Takes     string        // how long a command takes; default 20ms..60ms
	NoStation bool          // nobody answers commands
	Commands  bool          // the recipe has four commands and waits for no event: an event that Redis forgets never comes again
	Bulk      int           // bytes that the answer to each command has beside what it says
	Plain     bool          // takt has no race detector, as users run it
}

// World is everything one test has to itself.
type World struct {
	T      testing.TB
	Redis  *testenv.RedisServer
	Broker *testenv.Broker
	Dir    string     // of the test
	Rand   *rand.Rand // its seed is in the log; TAKT_TEST_SEED repeats a run

	Forgets bool // Redis was set back: an order may run once more, with other command ids, for it was forgotten that it was started

	Keys        keys.Keys
	Prefix      string
	TopicPrefix string

	opt     Options
	cell    string
	log     string // of the station
	mu      sync.Mutex
	station *Process
	done    stationLog

	documents *documents
}

// New starts store, broker and station.
func New(t testing.TB, o Options) *World {
	t.Helper()
	o.WorkerTTL = cmp.Or(o.WorkerTTL, time.Second)
	o.Takes = cmp.Or(o.Takes, "20ms..60ms")
	if o.Store == nil {
		o.Store = testenv.StartRedis(t, o.Redis)
	}
	w := &World{T: t, Redis: o.Store, Broker: testenv.StartMosquitto(t, o.Mosquitto), Dir: folder(t), TopicPrefix: "plant/takt", opt: o}
	w.Prefix = w.Redis.Prefix(t)
	w.Keys = keys.New(w.Prefix)
	w.watchDocuments()
	w.Rand = Seeded(t)
	folder := "cell"
	if o.Commands {
		folder = "commands"
	}
	w.cell = cellOf(t, folder, 1, o.Takes)
	if o.Bulk > 0 {
		makeBulky(t, filepath.Join(w.cell, "equipment.yaml"), o.Bulk)
	}
	w.log = filepath.Join(w.Dir, "station.jsonl")
	if !o.NoStation {
		w.StartStation()
	}
	return w
}

// folder is a folder of the test; below TAKT_TEST_KEEP, if that is set, to look at after a failure.
func folder(t testing.TB) string {
	keep := os.Getenv("TAKT_TEST_KEEP")
	if keep == "" {
		return t.TempDir()
	}
	dir := filepath.Join(keep, t.Name())
	testenv.Must(t, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)))
	return dir
}

// Seeded is a source of chance for a test. Its seed is in the log; TAKT_TEST_SEED repeats a run.
func Seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TAKT_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("TAKT_TEST_SEED: %v", err)
		}
	}
	t.Logf("TAKT_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Args are the flags by which every takt command finds this world.
func (w *World) Args(args ...string) []string {
	return append(args, "--redis", w.Redis.URL, "--mqtt", w.Broker.URL, "--prefix", w.Prefix, "--topic-prefix", w.TopicPrefix)
}

// Ready is what `takt serve` says when it takes commands. Other lines say that it is not ready.
const Ready = "ready: commands are taken"

// Serve starts `takt serve` as the instance name, with more flags, and waits until it takes commands. The same name again is
// the same instance, after a restart.
func (w *World) Serve(name string, flags ...string) *Process {
	w.T.Helper()
	p := w.BeginServe(name, flags...)
	p.Await(Ready)
	return p
}

// BeginServe is Serve that does not wait.
func (w *World) BeginServe(name string, flags ...string) *Process {
	w.T.Helper()
	args := w.Args("serve", "--data", filepath.Join(w.Dir, name), "--worker-ttl", w.opt.WorkerTTL.String())
	return StartCommand(w.T, w.command(append(args, flags...)))
}

// command is a takt command of this world.
func (w *World) command(args []string) Command {
	c := Command{Args: args}
	if w.opt.Plain {
		c.Path = PlainBinary(w.T)
	}
	return c
}

// StartStation starts the station, or starts it again with its log.
func (w *World) StartStation() {
	w.T.Helper()
	p := StartCommand(w.T, w.command([]string{
		"station", "simulate", filepath.Join(w.cell, "equipment.yaml"), "--log", w.log, "--mqtt", w.Broker.URL, "--topic-prefix", w.TopicPrefix,
	}))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.station = p
}

// Station is the process of the station that runs now.
func (w *World) Station() *Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.station
}

// Takt runs a takt command in this world to its end.
func (w *World) Takt(args ...string) Result {
	w.T.Helper()
	return RunCommand(w.T, w.command(w.Args(args...)))
}

// Until waits until ok holds; it is asked again and again, for what has no event to wait for, such as a key of Redis.
func (w *World) Until(what string, ok func() bool) {
	w.T.Helper()
	testenv.Eventually(w.T, what, ok)
}

// Worker is the instance name of a `takt serve` process.
func (w *World) Worker(p *Process) string {
	w.T.Helper()
	_, rest, ok := strings.Cut(p.Stderr(), "instance=")
	if !ok {
		w.T.Fatalf("%s did not say its instance", p.name)
	}
	return strings.Fields(rest)[0]
}

// UntilDead waits until the heartbeat of an instance has run out, so that others take over what it holds.
func (w *World) UntilDead(instance string) {
	w.T.Helper()
	w.Until("the heartbeat of "+instance+" has run out", func() bool { return w.Redis.Number(w.T, "EXISTS", w.Keys.Worker(instance)) == 0 })
}

// Connect runs a connection to a broker until the test ends, with subscriptions from its beginning.
func Connect(t testing.TB, o mqtt.Options, subs ...mqtt.Subscription) *mqtt.Conn {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	conn, err := mqtt.New(o)
	testenv.Must(t, err)
	testenv.Must(t, conn.Subscribe(t.Context(), subs...))
	testenv.Run(t, conn.Run)
	if err := conn.Ready(testenv.Within(t)); err != nil {
		t.Fatalf("%s: %v", o.ClientID, err)
	}
	return conn
}
