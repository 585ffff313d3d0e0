package sfc

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/jobstore"
	"github.com/taktworks/takt/recipe"
)

// endless is one command over and over.
const endless = `{"AllowEndless": true, "MaxIterations": 1000000,
  "Steps": [{"Name": "S", "Initial": true}],
  "Transitions": [{"Source": "S", "Target": "S", "Condition": "always", "Priority": 0}],
  "Actions": [{"Name": "go", "Step": "S", "Qualifier": "N", "Interaction": "push_command", "TypeId": "go.v1", "TimeoutSeconds": 600}]}`

// BenchmarkActionSettled measures one action: its answer arrives, is committed with its result, and the next command is
// in the outbox. The parallel one has as many jobs as goroutines.
func BenchmarkActionSettled(b *testing.B) {
	redis := testenv.Redis(b)
	for _, bc := range []struct {
		name   string
		sender bool
	}{{"sender", true}, {"elsewhere", false}} {
		b.Run(bc.name, func(b *testing.B) {
			r := newBench(b, redis, 1)
			b.ResetTimer()
			for i := range b.N {
				if !bc.sender {
					r.e.routes = newRoutes[string](1)
				}
				r.answer(b, 0, i+1, bc.sender)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		const jobs = 32
		r := newBench(b, redis, jobs)
		var next atomic.Int32
		b.SetParallelism(jobs / 2)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			job := int(next.Add(1)-1) % jobs
			for n := 1; pb.Next(); n++ {
				r.answer(b, job, n, true)
			}
		})
	})
}

type bench struct {
	e           *instance
	jobs        []jobstore.Route
	correlation []string
}

func newBench(b *testing.B, redis *testenv.RedisServer, jobs int) *bench {
	p := newPlantOn(b, redis)
	r := &bench{e: p.start("a", setup{idle: true})}
	p.workMaster("WM", []byte(endless))
	for i := range jobs {
		p.order(fmt.Sprintf("JO-%d", i), "WM")
	}
	r.e.takeWork()
	for i := range jobs {
		x := p.load(fmt.Sprintf("JO-%d", i)).Execution
		r.correlation = append(r.correlation, x.CorrelationID)
		r.jobs = append(r.jobs, jobstore.Route{JobOrderID: isa95.JobOrderID(x.JobID), Scope: scope, Recipe: x.Recipe})
	}
	b.Cleanup(func() {
		rdb, k := redis.Client, keys.New(p.prefix)
		rdb.Do(context.WithoutCancel(b.Context()), rdb.B().Del().Key(k.SfcOutbox()).Build())
	})
	return r
}

// answer settles the n-th iteration of a job.
func (r *bench) answer(b *testing.B, job, n int, sender bool) {
	id := recipe.CommandID(r.correlation[job], "go", n, n)
	if sender { // it has sent the command
		r.e.routes.put(id, jobstore.Route{JobOrderID: r.jobs[job].JobOrderID, Scope: scope, Recipe: r.jobs[job].Recipe, Token: testSeed.Token(id)})
	}
	if err := r.e.Answer(b.Context(), answerTo(id, `{"ok":true}`)); err != nil {
		b.Fatal(err)
	}
}
