package embedded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
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
	path, _, err := Find("mosquitto", "mosquitto")
	if err != nil {
		return nil, err
	}
	return Start(ctx, Program{
		Kind: "mosquitto", Path: path, Dir: o.Dir, Port: o.Port, Ready: " running", Stdout: o.Stdout,
		Configure: o.configure, Args: func(configFile string) []string { return []string{"-c", configFile} },
	})
}

func (o MosquittoOptions) configure(dir string, port int) (config []string, url string, err error) {
	config = []string{
		"allow_anonymous true",
		"max_queued_messages 0", "max_queued_bytes 0", "max_inflight_messages 0", "max_packet_size 268435455",
		"set_tcp_nodelay true", "sys_interval 0",
		"log_dest stderr", "log_type error", "log_type warning", "log_type notice", "log_type information", "connection_messages false",
	}
	if os.Geteuid() == 0 {
		config = append(config, "user root") // else it becomes a user who cannot write to our directory
	}
	if o.Dir != "" {
		config = append(config, "persistence true", "persistence_location "+dir+"/", "autosave_interval 1")
	}
	config = append(append(config, o.Config...), fmt.Sprintf("listener %d %s", port, cmp.Or(o.Host, "127.0.0.1")))
	return append(config, o.Listen...), mqttURL(o.Host, port), nil
}
