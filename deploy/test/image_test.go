package deploy_test

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
)

// The image's file system, as the Dockerfile lays it out, serves as user 65532 in a root of its own, and writes to /data alone; there is no other file that it needs.
func TestImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("chroot needs root: run it as root")
	}
	root := filepath.Join(t.TempDir(), "image")
	if out, err := exec.CommandContext(t.Context(), "../image/layout", root, "v0.1.0").CombinedOutput(); err != nil {
		t.Fatalf("layout: %v\n%s", err, out)
	}
	for dir := root; dir != "/"; dir = filepath.Dir(dir) { // the temporary folder is of root
		if err := os.Chmod(dir, 0o755); err != nil && dir == root {
			t.Fatal(err)
		}
		if filepath.Dir(dir) == os.TempDir() {
			break
		}
	}
	data := filepath.Join(root, "data")
	testenv.Must(t, os.Chown(data, 65532, 65532))
	redis, broker := testenv.Redis(t), testenv.StartMosquitto(t, embedded.MosquittoOptions{})
	begin := func(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(ctx, "/usr/bin/takt", args...)
		cmd.Path = "/usr/bin/takt" // below the new root
		cmd.Err = nil
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		cmd.Dir, cmd.Env = "/data", []string{"TAKT_DATA=/data", "GOMEMLIMIT=200MiB", "TAKT_REDIS=" + redis.URL, "TAKT_MQTT=" + broker.URL, "TAKT_PREFIX=" + redis.Prefix(t)}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		out := new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		testenv.Must(t, cmd.Start())
		return cmd, out
	}
	run := func(args ...string) string {
		t.Helper()
		cmd, out := begin(t.Context(), args...)
		if err := cmd.Wait(); err != nil {
			t.Errorf("takt %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out.String()
	}
	if got := run("version"); !strings.Contains(got, "v0.1.0") {
		t.Errorf("version: %s", got)
	}
	before := files(t, root, data)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	addr := free.Addr().String()
	_ = free.Close()
	serve, out := begin(ctx, "serve", "--http", addr)
	testenv.Eventually(t, "it is ready", func() bool {
		response, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	stop()
	if err := serve.Wait(); serve.ProcessState.ExitCode() != 0 {
		t.Errorf("serve: %v\n%s", err, out)
	}
	if after := files(t, root, data); after != before {
		t.Errorf("it changed its image:\n%s\nbefore:\n%s", after, before)
	}
	names, err := os.ReadDir(data)
	if err != nil || len(names) == 0 {
		t.Errorf("nothing is in /data: %v", err)
	}
}

// files lists all files below root but those below except, with their size and mode.
func files(t *testing.T, root, except string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == except {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err == nil {
			b.WriteString(info.Mode().String() + " " + info.ModTime().Format(time.RFC3339Nano) + " " + path + "\n")
		}
		return err
	})
	testenv.Must(t, err)
	return b.String()
}

// The same sources give the same release.
func TestReleaseIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("two releases take minutes")
	}
	var sums [2]string
	for i := range sums {
		dir := filepath.Join(t.TempDir(), "release")
		if out, err := exec.CommandContext(t.Context(), "../../scripts/release", "v0.1.0", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sums[i] = string(read(t, filepath.Join(dir, "SHA256SUMS")))
	}
	if n := strings.Count(sums[0], "\n"); sums[0] != sums[1] || n != 10 {
		t.Errorf("%d files\n%s\n%s", n, sums[0], sums[1])
	}
	for _, want := range []string{"linux-amd64.tar.gz", "linux-arm64.tar.gz", "linux-arm.tar.gz", "darwin-amd64.tar.gz", "darwin-arm64.tar.gz", "windows-amd64.tar.gz", "_amd64.deb", "_arm64.deb", "_armhf.deb", ".cdx.json"} {
		if !strings.Contains(sums[0], want) {
			t.Errorf("no %s in\n%s", want, sums[0])
		}
	}
}
