package rig

import (
	"archive/tar"
	"bytes"
	"compress/bzip2"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// previousSources is an archive of the sources of the version before (see testdata/README.md).
//
//go:embed testdata/previous.tar.bz2
var previousSources []byte

var previous struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// Previous is the path of takt in the version before this one, built by the first test that asks from sources that are
// part of the repository. It has no race detector: it is not what is tested.
func Previous(t testing.TB) string {
	t.Helper()
	previous.once.Do(buildPrevious)
	if previous.err != nil {
		t.Fatalf("the version before: %v", previous.err)
	}
	return previous.path
}

func buildPrevious() {
	if previous.dir, previous.err = os.MkdirTemp("", "takt-previous-"); previous.err != nil {
		return
	}
	if previous.err = unpack(previousSources, previous.dir); previous.err != nil {
		return
	}
	previous.path = filepath.Join(previous.dir, "takt-previous")
	build := exec.Command("go", "build", "-o", previous.path, "./cmd/takt")
	build.Dir = filepath.Join(previous.dir, "takt")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		previous.err = fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
}

// unpack writes the files of a tar.bz2 below dir.
func unpack(archive []byte, dir string) error {
	r := tar.NewReader(bzip2.NewReader(bytes.NewReader(archive)))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s is not below the archive", h.Name)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		file := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
}
