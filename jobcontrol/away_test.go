package jobcontrol_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taktworks/takt/cloudevent"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobcontrol"
	"github.com/taktworks/takt/jobstore"
)

// behindProxy is a plant whose receiver reaches Redis through a proxy.
func behindProxy(t testing.TB, o jobcontrol.Options) (*plant, *testenv.Proxy) {
	t.Helper()
	env := testenv.Redis(t)
	proxy := testenv.CountingProxy(t, env.URL)
	return plantOn(t, env, jobstore.Options{URL: proxy.URL}, o), proxy
}

// A command whose time is over by the broker's interval while Redis is away is not carried out; one that was carried out in time gets its reply however late it comes.
func TestExpiresWhileHeld(t *testing.T) {
	p, proxy := behindProxy(t, jobcontrol.Options{HoldWhenAway: testenv.Patience})
	done := call(isa95.Store, order("JO-0"))
	first := p.answer(t, done)
	wantStatus(t, first, isa95.NoError)

	proxy.Refuse(true)
	proxy.Cut()
	e := call(isa95.Store, order("JO-1"))
	e.Delivery.Deadline = time.Now().Add(50 * time.Millisecond)
	replies := make(chan cloudevent.Event, 1)
	before := proxy.Dials()
	go func() { replies <- p.answer(t, e) }()
	testenv.Eventually(t, "an attempt to connect after the deadline", func() bool { return time.Now().After(e.Delivery.Deadline) && proxy.Dials() > before })
	proxy.Refuse(false)
	reply := <-replies
	wantStatus(t, reply, isa95.InvalidRequest)
	if reply.ErrorKind != cloudevent.KindTimeout || p.state(t, "JO-1") != "" {
		t.Errorf("%s %s, the order is %q", reply.ErrorKind, reply.ErrorMessage, p.state(t, "JO-1"))
	}

	done.Delivery.Deadline = e.Delivery.Deadline
	if again := p.answer(t, done); again.ID != first.ID {
		t.Errorf("a repeat that came late gets %s %s", again.ID, again.Data)
	}
	e.Delivery.Deadline = time.Now().Add(time.Hour)
	wantStatus(t, p.answer(t, e), isa95.NoError)
}

// While Redis is away a command is held; when it comes back in time the command is carried out, once.
func TestHeldWhileAwayD15(t *testing.T) {
	p, proxy := behindProxy(t, jobcontrol.Options{HoldWhenAway: testenv.Patience})
	p.do(t, isa95.Store, order("JO-0"), isa95.NoError)
	for name, away := range map[string]func(on bool){
		"refused": func(on bool) {
			proxy.Refuse(on)
			proxy.Cut()
		},
		"replies dropped": func(on bool) { proxy.DropReplies(on) },
	} {
		t.Run(name, func(t *testing.T) {
			away(true)
			var all sync.WaitGroup
			replies := make(chan cloudevent.Event, 3)
			before := proxy.Dials()
			for i := range 3 {
				all.Go(func() {
					replies <- p.answer(t, call(isa95.Store, order(fmt.Sprintf("JO-%s-%d", strings.ReplaceAll(name, " ", "-"), i))))
				})
			}
			if name == "refused" {
				testenv.Eventually(t, "a second attempt to connect", func() bool { return proxy.Dials() >= before+2 })
			}
			if len(replies) != 0 {
				t.Error("answered without Redis")
			}
			away(false)
			all.Wait()
			close(replies)
			for reply := range replies {
				wantStatus(t, reply, isa95.NoError)
			}
		})
	}
	if got := len(p.events(t)); got != 7 {
		t.Errorf("%d events, want 7", got)
	}
	p.redis(t, "DEL", p.keys.SfcWork())
	p.wantSound(t)
}

// hurried is p with a receiver that holds a command for so long only, for what shall be given up. What shall be carried out must not depend on it: a busy machine may keep a
// test waiting for longer.
func (p *plant) hurried(hold time.Duration, observe func(jobcontrol.Observation)) *plant {
	q := *p
	q.Receiver = jobcontrol.New(p.store, jobcontrol.Options{
		Source: "urn:example:dcs", TopicPrefix: "app/jobs", Log: quiet, AnyScope: true, HoldWhenAway: hold, Observe: observe,
	})
	return &q
}

// When Redis stays away the answer is SERVICE_UNAVAILABLE and no ReturnStatus, for nobody knows; a repeat under the same id is
// carried out. What nobody waits for is not given up.
func TestUnavailableD15(t *testing.T) {
	long.Test(t, "waits until commands are given up")
	p, proxy := behindProxy(t, jobcontrol.Options{HoldWhenAway: testenv.Patience})
	p.do(t, isa95.Store, order("JO-0"), isa95.NoError)
	proxy.Refuse(true)
	proxy.Cut()
	events := []cloudevent.Event{
		call(isa95.Store, order("JO-7")), call(isa95.Abort, "JO-0"), call(isa95.RequestJobResponseByJobOrderID, "JO-0"),
		call(isa95.RequestJobResponseByJobOrderState, states("Aborted")), config(isa95.ConfigWorkMaster, "", `{"ID":"WM-1"}`), config(isa95.ConfigEquipment, "", `{"ID":"EQ-1"}`),
	}
	testenv.LongEnough(t, time.Second, func(hold time.Duration) bool { // for a second try
		observed := make(map[string]jobcontrol.Observation) // by type
		var mu sync.Mutex
		hurried := p.hurried(hold, func(o jobcontrol.Observation) {
			mu.Lock()
			defer mu.Unlock()
			observed[o.Type] = o
		})
		replies := make([]*cloudevent.Event, len(events))
		var all sync.WaitGroup
		for i, e := range events {
			all.Go(func() {
				var err error
				if replies[i], err = hurried.Handle(t.Context(), e); err != nil {
					t.Errorf("%s: %v", e.Type, err)
				}
			})
		}
		all.Go(func() {
			silent := events[0]
			silent.Delivery.ResponseTopic = ""
			if reply, err := hurried.Handle(t.Context(), silent); reply != nil || !jobstore.Away(err) {
				t.Errorf("reply %v, err %v: nobody would repeat it, so it must not be taken for handled", reply, err)
			}
		})
		all.Wait()
		again := true
		for i, e := range events {
			reply := replies[i]
			if reply == nil {
				t.Fatalf("%s: no reply", e.Type)
			}
			wantReply(t, e, *reply)
			if reply.ErrorKind != cloudevent.KindServiceUnavailable || len(reply.Data) != 0 || !strings.Contains(reply.ErrorMessage, "repeat") {
				t.Errorf("%s: %s %q %s", e.Type, reply.ErrorKind, reply.ErrorMessage, reply.Data)
			}
			o := observed[e.Type]
			if o.Kind != cloudevent.KindServiceUnavailable || o.Status != 0 || o.Took < hold {
				t.Errorf("%s: observed %+v", e.Type, o)
			}
			again = again && o.Tries >= 2
		}
		return again
	})
	proxy.Refuse(false)
	for _, e := range []cloudevent.Event{events[0], events[1], events[4], events[5]} {
		wantStatus(t, p.answer(t, e), isa95.NoError)
	}
}

// A receiver that is stopped while it holds a command leaves it to the broker.
func TestStoppedWhileHolding(t *testing.T) {
	p, proxy := behindProxy(t, jobcontrol.Options{HoldWhenAway: time.Minute})
	proxy.Refuse(true)
	proxy.Cut()
	ctx, cancel := context.WithCancel(t.Context())
	before := proxy.Dials()
	result := make(chan error, 1)
	go func() {
		reply, err := p.Handle(ctx, call(isa95.Store, order("JO-7")))
		if reply != nil {
			err = errors.New("it was answered")
		}
		result <- err
	}()
	testenv.Eventually(t, "an attempt", func() bool { return proxy.Dials() > before })
	cancel()
	select {
	case err := <-result:
		if err == nil || err.Error() == "it was answered" {
			t.Errorf("err = %v, want one", err)
		}
	case <-soon(t).Done():
		t.Fatal("it hangs")
	}
}
