package task

import (
	"testing"
	"testing/synctest"

	"github.com/taktworks/takt/internal/lifecycle"
)

// A pool is listed at first, and again after a minute, so that a list that was lost comes back.
func TestPoolIsListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pools
		if !p.due("gpu") {
			t.Error("it is not listed at first")
		}
		p.note("gpu")
		lifecycle.Sleep(t.Context(), listAgain)
		if p.due("gpu") || !p.due("line-3") {
			t.Error("it is listed too often, or not each pool for itself")
		}
		lifecycle.Sleep(t.Context(), 1)
		if !p.due("gpu") {
			t.Error("it is not listed again")
		}
	})
}
