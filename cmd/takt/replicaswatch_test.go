package main

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/taktworks/takt/jobstore"
)

// What is missing is said in the words of the flags; what is not known of replicas is said as it is.
func TestReplicasLack(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string // "" = as it is
	}{
		{&jobstore.ReplicasError{Acknowledged: 1, Want: 2, Within: time.Second}, "1 replicas acknowledge what is written within 1s, --redis-wait wants 2: start replicas of this master, or give a smaller --redis-wait"},
		{&jobstore.ReplicasError{Want: 1, OnDisk: true, Within: time.Second},
			"0 replicas have on their disks what is written within 1s, --redis-wait with --redis-wait-disk wants 1: start replicas with appendonly yes, or give a smaller --redis-wait"},
		{&jobstore.ReplicasError{Want: 1, OnDisk: true, NotOnMaster: true, Within: time.Second}, ""},
		{&jobstore.ReplicasError{Want: 1, Err: io.EOF}, ""},
		{io.EOF, ""},
	} {
		wrapped := fmt.Errorf("jobstore: %w", test.err)
		got := replicasLack(wrapped)
		if test.want == "" {
			test.want = wrapped.Error()
		}
		if got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if err := replicasLack(nil); err != nil {
		t.Error(err)
	}
}
