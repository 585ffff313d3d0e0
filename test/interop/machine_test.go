package interop_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/test/rig"
)

// A program in Python is the machine of 200 orders without a recipe. It is killed again and again, and Takt with it: every order has one result, with the id and the
// data of the machine, and ended once.
func TestPythonMachine(t *testing.T) {
	const orders = 200
	w := rig.New(t, rig.Options{NoStation: true, Redis: embedded.RedisOptions{Persist: true}})
	at, err := url.Parse(w.Broker.URL)
	testenv.Must(t, err)
	machine := func() *rig.Process {
		p := rig.StartCommand(t, rig.Command{Path: "/usr/bin/python3", Args: []string{
			filepath.Join(rig.Root(t), "examples/machine/machine.py"), "--port", at.Port(), "--prefix", w.TopicPrefix, "--scope", string(rig.Scope), "--journal", filepath.Join(w.Dir, "journal"),
		}})
		p.Await("ready")
		return p
	}
	serve, python := w.Serve("a"), machine()
	m := w.MES()
	todo := rig.Orders("JO", orders)
	for _, o := range todo {
		o.WorkMasterID, o.JobOrderParameters = nil, nil
	}
	go m.Order(todo)
	for kill := range 8 {
		m.UntilResults(orders / 10 * (kill + 1))
		python.Kill()
		if kill%3 == 1 {
			serve.Kill()
			serve = w.Serve("a")
		}
		python = machine()
	}
	m.UntilDone(orders)
	journal, err := os.ReadFile(filepath.Join(w.Dir, "journal"))
	testenv.Must(t, err)
	ledger := m.Ledger()
	for _, o := range todo {
		results := ledger.Results[o.JobOrderID]
		if len(results) != 1 {
			t.Errorf("%s has %d results", o.JobOrderID, len(results))
			continue
		}
		r := results[0]
		state, err := isa95.ParseState(r.JobState)
		if err != nil || state.String() != "Ended_Completed" || r.JobResponseID != "R-"+o.JobOrderID || len(r.JobResponseData) != 1 || r.StartTime == "" || r.EndTime == "" {
			t.Errorf("%+v, %v", r, err)
		}
		if n := strings.Count(string(journal), fmt.Sprintf(`"order": %q, "step": "End"}`, o.JobOrderID)); n != 1 {
			t.Errorf("%s ended %d times", o.JobOrderID, n)
		}
	}
	w.AtRest()
	w.Check()
}
