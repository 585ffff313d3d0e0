package embedded

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Program is a server that Start runs as a child.
type Program struct {
	Kind   string    // for Server.Kind and errors
	Path   string    // of the program; see Find
	Dir    string    // data directory; "" = a temporary one, removed by Stop
	Port   int       // 0 = a free one
	Ready  string    // text of the line of its output that says it listens
	Stdout io.Writer // what it says; nil = nowhere

	// Configure returns the lines of the configuration file, and where the server will listen.
	Configure func(dir string, port int) (config []string, url string, err error)
	Args      func(configFile string) []string
}

// Start runs p as a child and waits until it listens or ctx ends. A data directory in use is a *DirBusyError.
func Start(ctx context.Context, p Program) (*Server, error) {
	return onFreePort(p.Kind, p.Port, func(port int) (*Server, error) { return p.start(ctx, port) })
}

func (p Program) start(ctx context.Context, port int) (*Server, error) {
	dir, lock, free, err := dataDir(ctx, p.Dir, p.Kind)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, p.Kind+".conf")
	config, url, err := p.Configure(dir, port)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600)
	}
	if err != nil {
		free()
		return nil, err
	}
	return run(ctx, p.Kind, url, &child{path: p.Path, args: p.Args(file), ready: p.Ready, out: p.Stdout, lock: lock}, free)
}
