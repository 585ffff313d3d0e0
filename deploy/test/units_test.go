package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// systemd has nothing to say about the units, and calls their exposure at most 2 of 10.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatal(units, err)
	}
	for _, file := range units {
		text := string(read(t, file))
		_, line, _ := strings.Cut(text, "\nExecStart=")
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		knows(t, file, words[2:], nil)
		// verify wants the program to be there.
		unit := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(unit, []byte(strings.Replace(text, words[0], "/bin/true", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", unit}, {"security", "--offline=true", "--threshold=20", "--no-pager", unit}} {
			cmd := exec.CommandContext(t.Context(), "systemd-analyze", args...)
			cmd.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
			out, err := cmd.CombinedOutput()
			if err != nil || args[0] == "verify" && len(out) > 0 {
				t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	}
	var settings map[string]any
	strictly(t, read(t, "../systemd/takt.yaml"), &settings)
	var names []string
	for name := range settings {
		names = append(names, "--"+name)
	}
	knows(t, "takt.yaml", names, nil)
}

// Each metric of the alerts is one that Takt serves, each alert is in the page, and each has an expression and a severity.
func TestAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	strictly(t, read(t, "../prometheus/alerts.yaml"), &file)
	code := string(read(t, "../../internal/telemetry/metrics.go")) + string(read(t, "../../cmd/takt/serve.go"))
	page := string(read(t, "../../docs/operations/alerts.md"))
	for _, r := range file.Groups[0].Rules {
		if r.Expr == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || !strings.Contains(page, "| "+r.Alert+" |") {
			t.Errorf("%+v", r)
		}
		for _, metric := range regexp.MustCompile(`takt_[a-z_]+`).FindAllString(r.Expr, -1) {
			name := strings.TrimSuffix(metric, "_bucket")
			if conn, ok := strings.CutPrefix(name, "takt_mqtt_"); ok { // made of the name of the connection
				_, what, _ := strings.Cut(conn, "_")
				name = "_" + what
			}
			if !strings.Contains(code, name+`"`) {
				t.Errorf("%s: there is no metric %s", r.Alert, metric)
			}
		}
	}
}
