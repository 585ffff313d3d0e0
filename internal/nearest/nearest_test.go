package nearest_test

import (
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/nearest"
)

func TestName(t *testing.T) {
	known := []string{"MaxAttempts", "Parameters", "AllowEndless", "TimeoutSeconds", "Priority", "JobOrderID", "Name", "ID"}
	for word, want := range map[string]string{
		"MaxAttemps": "MaxAttempts", "Paramters": "Parameters", "AllowEndles": "AllowEndless", "TimeOutSeconds": "TimeoutSeconds",
		"Prioritty": "Priority", "JobOrderId": "JobOrderID", "Nmae": "Name", "Id": "ID", "timeoutseconds": "TimeoutSeconds",
		"Colour": "", "x": "", "": "", strings.Repeat("y", 5000): "",
	} {
		if got := nearest.Name(word, known); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
	if got := nearest.Ask("Nmae", known); got != ", did you mean Name?" {
		t.Error(got)
	}
	if got := nearest.Ask("Colour", known); got != "" {
		t.Error(got)
	}
}
