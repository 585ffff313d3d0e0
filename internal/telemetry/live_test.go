package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A check may fail for a minute, and begins anew once it holds.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away error
		live := Within(time.Minute, func(context.Context) error { return away })
		for _, step := range []struct {
			away  bool
			after time.Duration
			dies  bool
		}{{true, 0, false}, {true, time.Minute, false}, {true, time.Millisecond, true}, {false, 0, false}, {true, time.Minute, false}, {true, time.Second, true}} {
			time.Sleep(step.after) // virtual time
			away = nil
			if step.away {
				away = errors.New("redis is away")
			}
			if err := live(t.Context()); (err != nil) != step.dies {
				t.Errorf("%+v: %v", step, err)
			}
		}
	})
}

func TestLivez(t *testing.T) {
	s := &Server{Addr: "127.0.0.1:0", Live: func(context.Context) error { return errors.New("redis://u:hunter2@h is away") }}
	if code, text := get(t, serve(t, s)+"/livez"); code != http.StatusServiceUnavailable || strings.Contains(text, "hunter2") || !strings.Contains(text, "is away") {
		t.Errorf("/livez: %d %s", code, text)
	}
}
