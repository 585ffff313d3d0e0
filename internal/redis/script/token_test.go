package script

import (
	"testing"
	"time"
)

// A token and its time to live are one value; older builds wrote the token alone.
func TestWithoutTTL(t *testing.T) {
	for value, want := range map[string]string{
		WithTTL("cell 7", 10*time.Second): "cell 7",
		WithTTL("a ttl=5", time.Second):   "a ttl=5",
		"host:7:0190":                     "host:7:0190",
		"a ttl=x":                         "a ttl=x",
		"":                                "",
	} {
		if got := WithoutTTL(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	if got := WithTTL("a", 1500*time.Millisecond); got != "a ttl=1500" {
		t.Errorf("%q", got)
	}
}
