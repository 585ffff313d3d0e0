package embedded

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ZooKeeperOptions are those of StartZooKeeper. The zero value is a server of its own, on a free port, for tests.
type ZooKeeperOptions struct {
	Dir      string        // data directory; "" = a temporary one, removed by Stop
	Port     int           // on 127.0.0.1; 0 = a free one
	TickTime time.Duration // sessions last 2 to 20 of them, whatever a client asks for; 0 = 200 ms, for sessions of 0.4 s to 4 s
	Config   []string      // more lines of zoo.cfg, winning over ours
	Stdout   io.Writer     // what the server warns of; nil = nowhere
}

const (
	debianJars      = "/usr/share/java"
	defaultTickTime = 200 * time.Millisecond
)

// StartZooKeeper runs a single ZooKeeper server of Debian's libzookeeper-java as a child and waits until it serves or ctx
// ends. That takes a second or two and 100 MB. A kill loses nothing that a client was told of; a crash of the machine may,
// for the log is not synced to disk. The sessions survive a restart as well, and their time starts anew. A missing Java or
// library is a *NotFoundError, a data directory in use a *DirBusyError.
func StartZooKeeper(ctx context.Context, o ZooKeeperOptions) (*Server, error) {
	java, classPath, err := findZooKeeper("java", debianJars)
	if err != nil {
		return nil, err
	}
	return onFreePort(o.Port, func(port int) (*Server, error) { return startZooKeeper(ctx, o, java, classPath, port) })
}

// findZooKeeper looks for Java, and for what its class path must name: the manifest of zookeeper.jar names the rest.
func findZooKeeper(java, jars string) (path, classPath string, err error) {
	const both = "default-jre-headless libzookeeper-java"
	path, _, ok := find(java)
	if !ok {
		return "", "", &NotFoundError{Programs: java, Package: both}
	}
	var names []string
	for _, name := range []string{"zookeeper.jar", "slf4j-simple.jar"} {
		file := filepath.Join(jars, name)
		if _, err := os.Stat(file); err != nil {
			return "", "", &NotFoundError{Programs: name, Where: "in " + jars, Package: both}
		}
		names = append(names, file)
	}
	return path, strings.Join(names, ":"), nil
}

func startZooKeeper(ctx context.Context, o ZooKeeperOptions, java, classPath string, port int) (*Server, error) {
	dir, lock, free, err := dataDir(ctx, o.Dir, "zookeeper")
	if err != nil {
		return nil, fmt.Errorf("embedded: zookeeper: %w", err)
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(zooKeeperConfig(o, dir, port)), 0o600); err != nil {
		free()
		return nil, fmt.Errorf("embedded: zookeeper: %w", err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	c := &child{
		path: java, out: o.Stdout, lock: lock,
		args: []string{
			"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // a quick start rather than a fast server
			"-XX:-UsePerfData", // which a killed one leaves in /tmp
			"-Djava.awt.headless=true", "-Dzookeeper.forceSync=no", "-Dzookeeper.jmx.log4j.disable=true",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.log." + lastToStart + "=info",
			"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error", // else a page for every client that goes without a word
			"-cp", classPath, "org.apache.zookeeper.server.ZooKeeperServerMain", file,
		},
		ready: lastToStart,
	}
	return run(ctx, "zookeeper", true, "zookeeper://"+addr, c, free)
}

// lastToStart says something when clients are served already; 'ruok' is answered too early.
const lastToStart = "org.apache.zookeeper.server.ContainerManager"

func zooKeeperConfig(o ZooKeeperOptions, dir string, port int) string {
	tick := o.TickTime
	if tick == 0 {
		tick = defaultTickTime
	}
	lines := []string{
		"dataDir=" + strings.ReplaceAll(dir, `\`, `\\`),
		fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1", "maxClientCnxns=0",
		fmt.Sprintf("tickTime=%d", tick.Milliseconds()),
		"admin.enableServer=false", "4lw.commands.whitelist=*",
	}
	return strings.Join(append(lines, o.Config...), "\n") + "\n"
}
