package task

import (
	"context"
	"testing"

	"github.com/taktworks/takt/task/internal/wire"
)

// Without a tracer, and outside of spans, tracing allocates nothing.
func TestNoTracerAllocatesNothing(t *testing.T) {
	_, r := unitWorker(nil)
	c, m, ctx, o := new(Client), new(wire.Meta), context.Background(), &outcome{kind: Done, run: r}
	if n := testing.AllocsPerRun(100, func() {
		c.injectTrace(ctx, m)
		_ = r.trace(ctx)
		r.endSpan(o)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
