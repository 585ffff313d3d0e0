package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/taktworks/takt/isa95"
	"github.com/taktworks/takt/mes"
	"github.com/taktworks/takt/mqtt"
	"github.com/taktworks/takt/test/rig"
)

// mesRole is the environment variable that makes this test binary an MES: its value is where it hangs, until it is killed.
// The other two say where the broker is and in which folder it has its memory and its ledger.
const (
	mesRole   = "TAKT_TEST_MES"
	mesBroker = "TAKT_TEST_MES_BROKER"
	mesFolder = "TAKT_TEST_MES_FOLDER"
)

// Where an MES hangs: after it has taken over the n-th result and before it remembers that, or after that and before Clear.
const (
	beforeMemory = "before memory"
	beforeClear  = "before clear"
	nowhere      = "nowhere"
)

const hangAt = 3 // the result at which it hangs

// runMES is an MES of its own process. Each result is in its ledger before it is remembered, and each answer to Clear.
func runMES() int {
	folder := os.Getenv(mesFolder)
	ledger, err := os.OpenFile(filepath.Join(folder, "mes.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	defer ledger.Close()
	file, err := mes.OpenMemory(filepath.Join(folder, "memory.json"))
	if err != nil {
		return fail(err)
	}
	client, err := mes.New(mes.Options{MQTT: mqtt.Options{URL: os.Getenv(mesBroker), ClientID: fmt.Sprintf("mes-%d", os.Getpid())}, TopicPrefix: "plant/takt"})
	if err != nil {
		return fail(err)
	}
	ctx := context.Background()
	go func() { _ = client.Run(ctx) }() // until it is killed
	_, err = client.Follow(ctx, []isa95.Scope{rig.Scope}, mes.FollowOptions{
		Memory: &hanging{Memory: file, where: os.Getenv(mesRole)}, Clear: true,
		OnResult: func(_ context.Context, _ isa95.Scope, r isa95.JobResponse) error {
			return note(ledger, mesEntry{Result: r.JobOrderID, Response: r.JobResponseID})
		},
		OnClear: func(_ isa95.Scope, id isa95.JobOrderID, _ isa95.ReturnStatus) {
			_ = note(ledger, mesEntry{Cleared: string(id)})
		},
	})
	return fail(err)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// mesEntry is one line of the ledger.
type mesEntry struct{ Result, Response, Cleared string }

func note(ledger *os.File, e mesEntry) error {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = ledger.Write(append(text, '\n'))
	}
	return err
}

// hanging is a memory that stops for good at one result.
type hanging struct {
	mes.Memory
	where string
	n     atomic.Int32
}

// Handed is called for several results at once.
func (m *hanging) Handed(ctx context.Context, s isa95.Scope, id isa95.JobOrderID, r mes.Receipt) error {
	n := m.n.Add(1)
	hang := func() {
		fmt.Println("hanging at", id)
		select {}
	}
	if n == hangAt && m.where == beforeMemory {
		hang()
	}
	err := m.Memory.Handed(ctx, s, id, r)
	if n == hangAt && m.where == beforeClear {
		hang()
	}
	return err
}

// The MES is killed between a result and its Clear. It comes back with its memory and gets everything; a result comes twice only
// if the process died before that was remembered, and is the same then.
func TestMESKilledBetweenResultAndClear(t *testing.T) {
	t.Parallel()
	for _, where := range []string{beforeMemory, beforeClear} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t, rig.Options{})
			w.Serve("a")
			m := w.QuietMES()
			const orders = 10
			m.Order(rig.Orders("JO", orders))

			folder := t.TempDir()
			first := startMES(t, w, folder, where)
			first.Await("hanging at")
			first.Kill()
			remembered := memory(t, folder)
			startMES(t, w, folder, nowhere)
			var results map[string][]string
			var cleared map[string]bool
			w.Until("all orders given back and cleared", func() bool {
				results, cleared = readLedger(t, folder)
				return len(cleared) == orders
			})
			for id, responses := range results {
				if remembered[id] && len(responses) > 1 {
					t.Errorf("%s has %d results, though the first was remembered", id, len(responses))
				}
				if len(slices.Compact(responses)) > 1 {
					t.Errorf("%s has different results: %v", id, responses)
				}
			}
			if len(results) != orders {
				t.Errorf("%d orders have results", len(results))
			}
			if where == beforeClear && len(remembered) == 0 {
				t.Error("nothing was remembered")
			}
			w.VerifyStation()
			w.AtRest()
			w.Check()
		})
	}
}

func startMES(t *testing.T, w *rig.World, folder, where string) *rig.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return rig.StartCommand(t, rig.Command{Path: self, Env: []string{mesRole + "=" + where, mesBroker + "=" + w.Broker.URL, mesFolder + "=" + folder}})
}

// memory lists the orders whose results the MES remembered.
func memory(t *testing.T, folder string) map[string]bool {
	t.Helper()
	known, err := rig.ReadMemory(t, filepath.Join(folder, "memory.json")).Load(t.Context(), rig.Scope)
	if err != nil {
		t.Fatal(err)
	}
	remembered := map[string]bool{}
	for id := range known.Handed {
		remembered[string(id)] = true
	}
	return remembered
}

// readLedger lists the response ids of each order, and what was cleared.
func readLedger(t *testing.T, folder string) (results map[string][]string, cleared map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "mes.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	whole := string(text[:bytes.LastIndexByte(text, '\n')+1])
	results, cleared = map[string][]string{}, map[string]bool{}
	for _, e := range rig.Lines[mesEntry](t, whole) {
		if e.Result != "" {
			results[e.Result] = append(results[e.Result], e.Response)
		} else {
			cleared[e.Cleared] = true
		}
	}
	return results, cleared
}
