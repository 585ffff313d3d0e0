package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/taktworks/takt/internal/bench"
)

// takt measures Takt once, by its own command.
func (p plan) takt(ctx context.Context, binary string, server *bench.Server) (f bench.Figures, err error) {
	namespace := newNamespace()
	defer func() { err = errors.Join(err, clean(ctx, server, namespace)) }()
	cmd := exec.CommandContext(ctx, binary, "bench", "board", "--json", "--log-level", "error",
		"--board", server.URL+"?namespace="+namespace, "--n", strconv.Itoa(p.N), "--workers", strconv.Itoa(p.Workers))
	var out, errText bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errText
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, errText.Bytes())
	}
	found := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return nil, err
	}
	f = bench.Figures{}
	for _, r := range rows {
		value, ok := found[r.takt].(float64)
		if !ok {
			return nil, fmt.Errorf("takt bench board gives no %s", r.takt)
		}
		f[r.takt] = value
	}
	return f, nil
}

// build builds the takt of this tree. The folder is the caller's to remove.
func build(ctx context.Context) (binary, dir string, err error) {
	if dir, err = os.MkdirTemp("", "takt-bench-"); err != nil {
		return "", "", err
	}
	binary = filepath.Join(dir, "takt")
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/taktworks/takt").Output()
	if err == nil {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/takt")
		cmd.Dir = string(bytes.TrimSpace(module))
		var text []byte
		if text, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("build takt: %w: %s", err, text)
		}
	}
	return binary, dir, err
}
