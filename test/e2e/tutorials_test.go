package e2e_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/test/rig"
)

// The lines of each tutorial do what it says: blocks "sh" run one after the other, "sh terminal" beside them, and each line of "output" is in what was printed since the block of output before.
func TestTutorials(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(rig.Root(t), "docs/tutorials/*.md"))
	if err != nil || len(pages) != 4 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			testenv.Must(t, err)
			free, err := net.Listen("tcp", "127.0.0.1:0")
			testenv.Must(t, err)
			_, port, _ := net.SplitHostPort(free.Addr().String())
			_ = free.Close()
			dir, printed := t.TempDir(), ""
			for _, block := range strings.Split(string(text), "\n```")[1:] {
				language, lines, _ := strings.Cut(block, "\n")
				lines = strings.ReplaceAll(lines, "-p 1883", "-p "+port)
				command := rig.Command{
					Path: "/bin/bash", Args: []string{"-e", "-c", lines}, Dir: dir,
					Env: []string{"PATH=" + filepath.Dir(rig.Binary(t)) + ":" + os.Getenv("PATH"), "TAKT_MQTT_LISTEN=127.0.0.1:" + port, "TAKT_REPLACE=" + rig.Root(t), "CGO_ENABLED=0"},
				}
				switch language {
				case "sh terminal":
					command.Args[2] = "exec " + lines
					rig.StartCommand(t, command).Await("Takt is up")
				case "sh":
					command.Args[2] += "\nkill $(jobs -p) 2>/dev/null || true"
					r := rig.RunCommand(t, command)
					if r.Code != 0 {
						t.Fatalf("%s\nexit status %d\n%s%s", lines, r.Code, r.Stdout, r.Stderr)
					}
					printed += r.Stdout + r.Stderr
					if strings.Contains(lines, "\ncd press\n") {
						dir = filepath.Join(dir, "press")
					}
				case "output":
					for line := range strings.Lines(strings.TrimSuffix(lines, "\n")) {
						if line = strings.TrimSpace(line); !strings.Contains(printed, line) {
							t.Errorf("%q is not in\n%s", line, printed)
						}
					}
					printed = ""
				}
			}
		})
	}
}
