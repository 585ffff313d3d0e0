package task_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/keys"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/task"
	"github.com/taktworks/takt/task/internal/wire"
)

func (e *env) keys() keys.Keys { return keys.New(e.prefix) }

func ms(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// message is one as somebody else may write it.
func message(t testing.TB, m wire.Message) string {
	t.Helper()
	b, err := m.Append(nil)
	testenv.Must(t, err)
	return string(b)
}

// check lists what is wrong, and what there is.
func (e *env) check(grace time.Duration) (task.Report, []task.Violation) {
	e.t.Helper()
	report, found, err := task.Audit(e.ctx(), e.client, grace)
	e.ok(err)
	return report, found
}

// healthy fails the test if anything is wrong.
func (e *env) healthy(grace time.Duration) task.Report {
	e.t.Helper()
	report, found := e.check(grace)
	for _, v := range found {
		e.t.Errorf("%v", v)
	}
	return report
}

func contains(found []task.Violation, key, problem string) (hits int) {
	for _, v := range found {
		if v.Key == key && strings.Contains(v.Problem, problem) {
			hits++
		}
	}
	return hits
}
