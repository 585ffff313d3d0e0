package embedded

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// MosquittoOptions are those of StartMosquitto. The zero value is a broker without persistence on a free port.
type MosquittoOptions struct {
	Dir    string    // keeps sessions and retained messages there; "" = nothing is kept over a restart
	Host   string    // address to listen on; "" = 127.0.0.1
	Port   int       // 0 = a free one
	Config []string  // more configuration lines, winning over ours
	Listen []string  // configuration lines of the listener, such as its certificates
	Stdout io.Writer // what the broker says; nil = nowhere
}

// StartMosquitto runs mosquitto 2 as a child and waits until it listens or ctx ends. It lets everybody in, who can only
// be a program of this machine. It never drops a queued message silently, takes packets of any size, and has no Nagle delay. What is kept is written
// every second or two and at a clean end; a kill may lose that much. A missing program is a *NotFoundError.
func StartMosquitto(ctx context.Context, o MosquittoOptions) (*Server, error) {
	path, _, ok := find("mosquitto")
	if !ok {
		return nil, &NotFoundError{Programs: "mosquitto", Package: "mosquitto"}
	}
	return onFreePort(o.Port, func(port int) (*Server, error) { return startMosquitto(ctx, o, path, port) })
}

func startMosquitto(ctx context.Context, o MosquittoOptions, path string, port int) (*Server, error) {
	dir, lock, free, err := dataDir(ctx, o.Dir, "mosquitto")
	if err != nil {
		return nil, fmt.Errorf("embedded: mosquitto: %w", err)
	}
	file := filepath.Join(dir, "mosquitto.conf")
	if err := os.WriteFile(file, []byte(mosquittoConfig(o, dir, port)), 0o600); err != nil {
		free()
		return nil, fmt.Errorf("embedded: mosquitto: %w", err)
	}
	c := &child{path: path, args: []string{"-c", file}, out: o.Stdout, lock: lock, ready: " running"}
	return run(ctx, "mosquitto", o.Dir != "", mqttURL(o.Host, port), c, free)
}

func mosquittoConfig(o MosquittoOptions, dir string, port int) string {
	lines := []string{
		"allow_anonymous true",
		"max_queued_messages 0", "max_queued_bytes 0", "max_inflight_messages 0", "max_packet_size 268435455",
		"set_tcp_nodelay true", "sys_interval 0",
		"log_dest stderr", "log_type error", "log_type warning", "log_type notice", "log_type information", "connection_messages false",
	}
	if os.Geteuid() == 0 {
		lines = append(lines, "user root") // else it becomes a user who cannot write to our directory
	}
	if o.Dir != "" {
		lines = append(lines, "persistence true", "persistence_location "+dir+"/", "autosave_interval 1")
	}
	lines = append(lines, o.Config...)
	host := o.Host
	if host == "" {
		host = "127.0.0.1"
	}
	lines = append(append(lines, fmt.Sprintf("listener %d %s", port, host)), o.Listen...)
	return strings.Join(lines, "\n") + "\n"
}
