package interop_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// npm is a folder with the packages of test/npm, and the programs beside them.
func npm(t *testing.T) string {
	t.Helper()
	root := rig.Root(t)
	dir := rig.NPM(t, root, "test/npm")
	copied(t, filepath.Join(root, "test/npm/asyncapi.mjs"), dir)
	copied(t, filepath.Join(root, "examples/mes-js/mes.mjs"), dir)
	return dir
}

func copied(t *testing.T, file, dir string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o644)
	}
	testenv.Must(t, err)
}

// The official parser has nothing to say about the AsyncAPI document, and each payload is one of the schemas.
func TestAsyncAPI(t *testing.T) {
	dir := npm(t)
	out, err := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "asyncapi.mjs"), filepath.Join(rig.Root(t), "schemas")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0 findings") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// An MES in JavaScript and a machine in Python that know the documents alone: 1,000 job orders, each ordered, run, taken and cleared. Every body on the way is one of the schemas.
func TestDocumentsAlone(t *testing.T) {
	const orders = 1000
	dir, folder := npm(t), filepath.Join(rig.Root(t), "schemas")
	w := rig.New(t, rig.Options{NoStation: true, Redis: embedded.RedisOptions{Persist: true}})
	at, err := url.Parse(w.Broker.URL)
	testenv.Must(t, err)
	w.Serve("a")
	m := w.MES() // configures the station
	m.Away()
	machine := rig.StartCommand(t, rig.Command{Path: "/usr/bin/python3", Args: []string{filepath.Join(rig.Root(t), "test/interop/testdata/machine.py"), folder, at.Port(), w.TopicPrefix, string(rig.Scope)}})
	machine.Await("ready")
	r := rig.RunCommand(t, rig.Command{Path: "node", Args: []string{
		filepath.Join(dir, "mes.mjs"), "--schemas", folder, "--url", w.Broker.URL, "--prefix", w.TopicPrefix, "--scope", string(rig.Scope), "--orders", fmt.Sprint(orders),
	}})
	var did struct{ Orders, Documents, Events int }
	if err := json.Unmarshal([]byte(r.Stdout), &did); err != nil || r.Code != 0 {
		t.Fatalf("exit status %d: %v\n%s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	if did.Orders != orders || did.Events < 4*orders {
		t.Errorf("%+v", did)
	}
	if n := w.Documents(); n < 10*orders {
		t.Errorf("%d documents were checked, want %d at least", n, 10*orders)
	}
	t.Logf("%+v, %d documents on the broker", did, w.Documents())
	w.AtRest()
	w.Check()
}
