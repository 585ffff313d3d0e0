package goworkflows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cschleiden/go-workflows/backend"

	"github.com/taktworks/takt/workflow"
)

// The library compares these with ==.
func TestTranslate(t *testing.T) {
	for core, want := range map[error]error{
		workflow.ErrNotFound:    backend.ErrInstanceNotFound,
		workflow.ErrExists:      backend.ErrInstanceAlreadyExists,
		workflow.ErrNotFinished: backend.ErrInstanceNotFinished,
	} {
		if got := translate(fmt.Errorf("%w: order-7", core)); any(got) != any(want) {
			t.Errorf("%v: %v", core, got)
		}
	}
	if err := translate(nil); err != nil {
		t.Error(err)
	}
	if err := translate(workflow.ErrLost); !errors.Is(err, workflow.ErrLost) {
		t.Error(err)
	}
}

func TestRepeat(t *testing.T) {
	other := errors.New("no")
	for name, c := range map[string]struct {
		errs []error // of the calls; the last goes on
		want error
	}{
		"at once": {[]error{nil}, nil},
		"later":   {[]error{io.EOF, io.EOF, nil}, nil},
		"refused": {[]error{io.EOF, other, nil}, other},
		"away":    {[]error{io.EOF}, io.EOF},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, calls := time.Now(), 0
			err := repeat(t.Context(), func() error {
				calls++
				return c.errs[min(calls, len(c.errs))-1]
			})
			if !errors.Is(err, c.want) || calls < len(c.errs)-1 || time.Since(begin) > patience {
				t.Errorf("%s: %v after %d calls and %v", name, err, calls, time.Since(begin))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := repeat(ctx, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("at the end of its context: %v", err)
	}
}
