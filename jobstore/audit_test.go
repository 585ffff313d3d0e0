package jobstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/jobstore"
)

// The audit keeps about the last 10000 entries, of texts that are cut at the end of a character, and gives those of one user, or before an entry, the newest first.
func TestAudit(t *testing.T) {
	s := newShop(t)
	var writers sync.WaitGroup
	for range 20 {
		writers.Go(func() {
			for range 515 {
				testenv.Must(t, s.Audit(t.Context(), jobstore.AuditEntry{User: "many", Action: "task.retry", Outcome: "done"}))
			}
		})
	}
	writers.Wait()
	long := strings.Repeat("ä", 300)
	for i := range 3 {
		testenv.Must(t, s.Audit(t.Context(), jobstore.AuditEntry{User: "anna", Role: "operator", Address: "::1", Action: "task.delete", Object: fmt.Sprint(i), Reason: "a" + long, Outcome: "gone"}))
	}
	objects := func(user, before string, count int) (all []string) {
		t.Helper()
		found, err := s.Audits(t.Context(), user, before, count)
		testenv.Must(t, err)
		for _, e := range found {
			all = append(all, e.Object)
		}
		return all
	}
	newest, err := s.Audits(t.Context(), "", "", 1)
	testenv.Must(t, err)
	want := jobstore.AuditEntry{ID: newest[0].ID, Time: newest[0].Time, User: "anna", Role: "operator", Address: "::1", Action: "task.delete", Object: "2", Reason: "a" + long[:498] + "…", Outcome: "gone"}
	if diff := cmp.Diff(want, newest[0]); diff != "" || newest[0].Time.IsZero() {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"2", "1"}, {"1", "0"}, nil}, [][]string{objects("anna", "", 2), objects("anna", newest[0].ID, 2), objects("nobody", "", 2)}); diff != "" {
		t.Error(diff)
	}
	if kept := len(objects("", "", 20_000)); kept < 10_000 || kept > 10_200 {
		t.Errorf("%d entries are kept", kept)
	}
}
