package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
)

// Each picture is resized once, the oldest first.
func TestRun(t *testing.T) {
	srv := testenv.Redis(t)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, srv.URL+"?namespace="+srv.Prefix(t), &out); err != nil {
		t.Fatal(err)
	}
	if want := "resized cat.png\nresized dog.png\nresized fox.png\n"; out.String() != want {
		t.Errorf("it printed\n%s, want\n%s", &out, want)
	}
}
