package isa95

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func expected(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// goldenCase reads in as a T and wants it written as out. What was written must read as the same again.
func goldenCase[T any](t *testing.T, in, out string) {
	t.Run(in, func(t *testing.T) {
		var v, back T
		if err := Unmarshal([]byte(expected(t, in)), &v); err != nil {
			t.Fatal(err)
		}
		text, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(expected(t, out), string(text)); diff != "" {
			t.Error(diff)
		}
		if err := Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, back); diff != "" {
			t.Error(diff)
		}
	})
}

// Bodies as captured. The .input.json files are as captured; the others are what we write.
func TestGoldenBodies(t *testing.T) {
	goldenCase[JobOrderCall](t, "G1-store-call.input.json", "G1-store-call.json")
	goldenCase[StatusEvent](t, "G4-status-event.json", "G4-status-event.json")
	goldenCase[JobOrderAndState](t, "G5-stored-joborder.input.json", "G5-joborder.json")
	goldenCase[JobResponse](t, "G6-stored-jobresponse.input.json", "G6-jobresponse.json")
	goldenCase[StateIndex](t, "G7-state-index.wire.json", "G7-state-index.page.json")
	goldenCase[StateIndex](t, "G7-state-index.page.json", "G7-state-index.page.json")
	goldenCase[JobOrderAndState](t, "G8-order.json", "G8-order.json")
	goldenCase[JobResponse](t, "G8-result.json", "G8-result.json")
	goldenCase[JobResponseResult](t, "G9-query-result.json", "G9-query-result.json")
	goldenCase[WorkMaster](t, "G11-workmaster.input.json", "G11-workmaster.json")
	goldenCase[WorkMaster](t, "G11-stored-workmaster.input.json", "G11-workmaster.json")
	goldenCase[Meta](t, "G12-metadata.json", "G12-metadata.json")
}

func TestGoldenMeta(t *testing.T) {
	text, err := Marshal(NewMeta())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected(t, "G12-metadata.json"), string(text)); diff != "" {
		t.Error(diff)
	}
}
