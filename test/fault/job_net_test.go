package fault_test

import (
	"testing"
	"time"

	"github.com/taktworks/takt/internal/testenv"
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
