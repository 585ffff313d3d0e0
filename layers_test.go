package takt_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/taktworks/takt/"

// layers are the packages from the bottom up; neighbours of one layer do not import each other.
// A folder stands for what is below it, too.
var layers = [][]string{
	{"internal/jsonscalar", "internal/jsonscan", "internal/nearest", "internal/rfc3339", "internal/utf8text", "internal/zones"},
	{"isa95", "recipe", "cloudevent", "schedule", "schemas"},
	{"internal", "chart"},
	{"lock"},
	{"limit"},
	{"mqtt", "jobstore", "task", "board", "workflow"},
	{"jobcontrol", "sfc", "publisher", "mes", "station", "jobhistory", "workflowhistory", "sampling"},
	{"processor", "simulation", "console"},
	{"examples"},
	{"cmd", "test"},
}

// only says who may import a library directly.
var only = map[string][]string{
	"github.com/eclipse/paho.golang": {"mqtt"},
	"github.com/go-zookeeper/zk":     {"internal", "board"},
	"github.com/gorilla/websocket":   {"mqtt"},
	"github.com/mochi-mqtt/server":   {"internal"},
	"github.com/redis/rueidis":       {"internal", "lock", "limit", "jobstore", "task", "board", "workflow"},
}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from, level := place(fields[0])
		if level < 0 && fields[0]+"/" != module {
			t.Errorf("package %s is in no layer", fields[0])
		}
		for _, imported := range fields[1:] {
			for library, users := range only {
				if strings.HasPrefix(imported, library) && !contains(users, from) {
					t.Errorf("%s imports %s, which only %v may", fields[0], imported, users)
				}
			}
			to, below := place(imported)
			if below > level || below == level && to != from {
				t.Errorf("%s imports %s: it looks up, or sideways", fields[0], imported)
			}
		}
	}
}

// go mod tidy asks for what the tests of a dependency import, too. Beside go-workflows, whose requirements have an older google.golang.org/genproto with the same packages,
// what imports gRPC fails: "ambiguous import".
func TestProgramsOfWorkflowsAreTidy(t *testing.T) {
	out, err := exec.Command("go", "list", "-test", "-deps", "./workflow", "./schedule").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		if strings.HasPrefix(path, "google.golang.org/genproto/") {
			t.Errorf("workflow, schedule or a test of theirs imports %s", strings.TrimSpace(path))
		}
	}
}

// place returns the folder of a package below the module and its layer, or -1 for a package of others.
func place(path string) (folder string, layer int) {
	rest, ours := strings.CutPrefix(path, module)
	if !ours {
		return "", -1
	}
	folder, _, _ = strings.Cut(rest, "/")
	if contains(layers[0], rest) {
		return rest, 0
	}
	for i, names := range layers {
		if contains(names, folder) {
			return folder, i
		}
	}
	return folder, -1
}

func contains(names []string, name string) bool {
	return slices.Contains(names, name)
}
