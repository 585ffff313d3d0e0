package fault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// Fault 10: bad connections between the instances and Redis, or the broker. Nothing is lost and nothing is done twice, though commands and answers of each come and go unheard.
func TestFault10BadConnections(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(w *jobWorld, p *testenv.Proxy){
		"replies are lost": func(w *jobWorld, p *testenv.Proxy) {
			for range 40 {
				p.LoseReplies(1)
				w.lasts(100 * time.Millisecond)
			}
			p.LoseReplies(0)
		},
		"cut every 200 ms for 15 s": func(w *jobWorld, p *testenv.Proxy) {
			for range 75 {
				p.Cut()
				w.lasts(200 * time.Millisecond)
			}
		},
		"deaf for 15 s": func(w *jobWorld, p *testenv.Proxy) {
			p.DropReplies(true)
			w.lasts(15 * time.Second)
			p.DropReplies(false)
		},
		"byte by byte, 100 kB/s": func(w *jobWorld, p *testenv.Proxy) {
			p.Fragment(1)
			p.Throttle(100_000)
			w.lasts(5 * time.Second)
			p.Fragment(0)
			p.Throttle(0)
		},
	} {
		for server, proxy := range map[string]func(w *jobWorld) *testenv.Proxy{
			"Redis":  func(w *jobWorld) *testenv.Proxy { return w.redis },
			"broker": func(w *jobWorld) *testenv.Proxy { return w.broker },
		} {
			t.Run(server+" "+name, func(t *testing.T) {
				t.Parallel()
				jobFault{do: func(w *jobWorld) {
					bad := w.strikes(name)
					trouble(w, proxy(w))
					bad.ends(5 * time.Second)
				}}.run(t)
			})
		}
	}
}

// Fault 19: answers that give an instance work are lost on their way, again and again. The instance finds the work among what it holds, or others do.
func TestFault19ReadCutOff(t *testing.T) {
	t.Parallel()
	jobFault{do: func(w *jobWorld) {
		lost := w.strikes("100 answers to XREADGROUP are lost")
		dials := w.redis.Dials()
		for range 100 {
			w.redis.LoseReplyTo("XREADGROUP")
			w.lasts(50 * time.Millisecond)
		}
		w.redis.LoseReplyTo("")
		lost.ends(jobTTL)
		if w.redis.Dials() == dials {
			t.Error("no answer was lost")
		}
	}}.run(t)
}

// errorLines counts lines of level ERROR of a process that say so and so.
func errorLines(p *rig.Process, text string) (n int) {
	for line := range strings.Lines(p.Stderr()) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Fault 28: no order is aborted whose machine answers in time, whatever keeps Takt from the answer and for however long. Nothing is
// lost, nothing is done twice. TestFault5RedisAway has Redis down. What is away for 15 s here is away for 3 min in the soak; each command of the cell may take 12 s.
func TestFault28OutageBeyondEveryTimeout(t *testing.T) {
	long := time.Duration(scaled(15, 180)) * time.Second
	for name, fault := range map[string]func(w *jobWorld){
		"the memory of Redis is full": func(w *jobWorld) {
			w.must("CONFIG", "SET", "maxmemory", "1")
			w.lasts(long)
			w.must("CONFIG", "SET", "maxmemory", "0")
		},
		"rights are withdrawn": func(w *jobWorld) {
			w.must("ACL", "SETUSER", "default", "-evalsha", "-xack", "-xreadgroup")
			w.lasts(long)
			w.must("ACL", "SETUSER", "default", "+@all")
			for _, p := range w.serves {
				if n, most := errorLines(p, "NOPERM"), 1+int(long/time.Minute); n < 1 || n > most {
					w.t.Errorf("%d lines of level ERROR name the refusal, want 1 a minute", n)
				}
				if strings.Contains(p.Stderr(), "message is lost") {
					w.t.Error("a message is lost")
				}
			}
		},
		"Redis is 1 s late each way": func(w *jobWorld) {
			w.redis.Delay(time.Second)
			w.lasts(20 * time.Second)
			w.redis.Delay(0)
		},
		"Redis is 3 s late each way": func(w *jobWorld) {
			w.redis.Delay(3 * time.Second)
			w.lasts(2 * long)
			w.redis.Delay(0)
		},
		"Redis is half-open, twice": func(w *jobWorld) {
			for range 2 {
				w.redis.Stall(true)
				w.lasts(long)
				w.redis.Stall(false)
				w.lasts(2 * time.Second)
			}
		},
		"the broker is half-open, twice": func(w *jobWorld) {
			for range 2 {
				w.broker.Stall(true)
				w.lasts(long + 5*time.Second)
				w.broker.Stall(false)
				w.lasts(2 * time.Second)
			}
		},
		"the broker is cut every 200 ms": func(w *jobWorld) {
			for end := time.Now().Add(long + 5*time.Second); time.Now().Before(end); {
				w.broker.Cut()
				w.lasts(200 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobFault{redis: always(), do: func(w *jobWorld) {
				outage := w.strikes(name)
				fault(w)
				outage.ends(jobTTL)
			}}.run(t)
		})
	}
}

// Fault 28: the MES is away while its orders run, one a second, for 30 minutes in the soak. When it is back it has every result once. How soon is in the log.
func TestFault28MESAway(t *testing.T) {
	n, every := scaled(30, 1800), time.Duration(scaled(50, 1000))*time.Millisecond
	w := rig.New(t, rig.Options{Redis: always(), WorkerTTL: jobTTL, Takes: "5ms..20ms", Plain: true})
	w.Serve("a")
	w.Serve("b")
	m := w.QuietMES()
	tick := time.Tick(every)
	for i := range n {
		m.Order(rig.Orders("JO", n)[i : i+1])
		<-tick
	}
	w.UntilExecuted(4 * n)
	w.Quiet()
	back := time.Now()
	m.Follow()
	m.UntilResults(n)
	t.Logf("away for %v: %d results %v after its return", time.Duration(n)*every, n, time.Since(back).Round(10*time.Millisecond))
	m.UntilDone(n)
	w.Verify(m)
}

// The broker is killed with orders under way, twice. What it had is gone, or as old as its last save: commands, answers and
// events on their way, sessions, and all retained topics.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]bool{"keeps sessions": true, "keeps nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o rig.Options
			if dir {
				o.Mosquitto.Dir = t.TempDir()
			}
			serversKilled(t, o, func(w *rig.World) { restart(t, w.Broker.Server) })
		})
	}
}

// Redis and the broker are killed together.
func TestFault5RedisAndBrokerKilled(t *testing.T) {
	t.Parallel()
	serversKilled(t, rig.Options{Redis: embedded.RedisOptions{Persist: true}}, func(w *rig.World) {
		w.Redis.Kill(t)
		restart(t, w.Redis.Server, w.Broker.Server)
	})
}

// serversKilled kills servers twice with orders under way.
func serversKilled(t *testing.T, o rig.Options, kill func(w *rig.World)) {
	t.Helper()
	w := rig.New(t, o)
	a, b := w.Serve("a"), w.Serve("b")
	m := w.MES()
	const orders = 40
	go m.Order(rig.Orders("JO", orders))
	for i := range 2 {
		w.UntilExecuted(i*2*orders + 1 + w.Rand.IntN(2*orders))
		kill(w)
	}
	m.UntilDone(orders)
	w.Verify(m)
	stillUp(t, a, b, w.Station())
}
