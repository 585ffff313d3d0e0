package deploy_test

import (
	"encoding/json"
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

// metrics are those of the reference, which takt docs writes from the code.
func metrics(t *testing.T) map[string]bool {
	all := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(takt_[a-z_]+)` \\| (\\w+)").FindAllStringSubmatch(string(read(t, "../../docs/reference/metrics.md")), -1) {
		all[m[1]] = true
		if m[2] == "histogram" {
			all[m[1]+"_bucket"] = true
		}
	}
	return all
}

// unknown are the metrics of an expression that Takt does not have.
func unknown(t *testing.T, expr string) (missing []string) {
	known := metrics(t)
	for _, name := range regexp.MustCompile(`takt_[a-z_]+`).FindAllString(expr, -1) {
		if !known[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// Each metric of the alerts is one that Takt has, each alert is in the page, and each has an expression and a severity.
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
	page := string(read(t, "../../docs/operations/alerts.md"))
	for _, r := range file.Groups[0].Rules {
		if r.Expr == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || !strings.Contains(page, "| "+r.Alert+" |") {
			t.Errorf("%+v", r)
		}
		if missing := unknown(t, r.Expr); len(missing) > 0 {
			t.Errorf("%s: there is no metric %v", r.Alert, missing)
		}
	}
}

// Prometheus can read the rules, and they fire in the cases of alerts_test.yaml and in no other.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool: scripts/install-tools interop")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Each metric of the dashboard is one that Takt has, panels do not lie upon each other, and the data source is chosen where it is imported.
func TestDashboard(t *testing.T) {
	type source struct{ Type, UID string }
	var board struct {
		Panels []struct {
			Title, Type string
			Datasource  source
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct {
				Expr       string
				Datasource source
			}
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal(read(t, "../grafana/takt.json"), &board); err != nil {
		t.Fatal(err)
	}
	if v := board.Templating.List; len(v) != 1 || v[0].Name != "datasource" || v[0].Type != "datasource" || v[0].Query != "prometheus" {
		t.Errorf("variables %+v", v)
	}
	own := source{"prometheus", "${datasource}"}
	taken := make(map[[2]int]string)
	for _, p := range board.Panels {
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" || at[0] >= 24 {
					t.Errorf("%s lies upon %q at %v", p.Title, other, at)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource != own || len(p.Targets) == 0 {
			t.Errorf("%s: %+v", p.Title, p)
		}
		for _, of := range p.Targets {
			if missing := unknown(t, of.Expr); len(missing) > 0 || of.Expr == "" || of.Datasource != own {
				t.Errorf("%s: there is no metric %v in %q", p.Title, missing, of.Expr)
			}
		}
	}
}
