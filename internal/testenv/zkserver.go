package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/taktworks/takt/internal/embedded"
)

const debianJars = "/usr/share/java"

// runZooKeeper runs a single ZooKeeper server of Debian's libzookeeper-java as a child and waits until it serves or ctx
// ends. That takes a second or two and 100 MB. A kill loses nothing that a client was told of; a crash of the machine may,
// for the log is not synced to disk. The sessions survive a restart as well, and their time starts anew. dir "" = a temporary one.
func runZooKeeper(ctx context.Context, dir string, says io.Writer) (*embedded.Server, error) {
	java, classPath, err := findZooKeeper("java", debianJars)
	if err != nil {
		return nil, err
	}
	return embedded.Start(ctx, embedded.Program{
		Kind: "zookeeper", Path: java, Dir: dir, Stdout: says, Ready: lastToStart,
		Configure: func(dir string, port int) ([]string, string, error) {
			return []string{
				"dataDir=" + strings.ReplaceAll(dir, `\`, `\\`),
				fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1", "maxClientCnxns=0",
				"tickTime=200", "maxSessionTimeout=60000", // sessions last 0.4 s to a minute, whatever a client asks for
				"admin.enableServer=false", "4lw.commands.whitelist=*", // by them the client of TaskFlow learns the version
			}, fmt.Sprintf("zookeeper://127.0.0.1:%d", port), nil
		},
		Args: func(configFile string) []string {
			return []string{
				"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // a quick start rather than a fast server
				"-XX:-UsePerfData", // which a killed one leaves in /tmp
				"-Djava.awt.headless=true", "-Dzookeeper.forceSync=no", "-Dzookeeper.jmx.log4j.disable=true",
				"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.log." + lastToStart + "=info",
				"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error", // else a page for every client that goes without a word
				"-cp", classPath, "org.apache.zookeeper.server.ZooKeeperServerMain", configFile,
			}
		},
	})
}

// lastToStart says something when clients are served already; 'ruok' is answered too early.
const lastToStart = "org.apache.zookeeper.server.ContainerManager"

// findZooKeeper looks for Java, and for what its class path must name: the manifest of zookeeper.jar names the rest.
func findZooKeeper(java, jars string) (path, classPath string, err error) {
	const both = "default-jre-headless libzookeeper-java"
	if path, _, err = embedded.Find(both, java); err != nil {
		return "", "", err
	}
	var names []string
	for _, name := range []string{"zookeeper.jar", "slf4j-simple.jar"} {
		file := filepath.Join(jars, name)
		if _, err := os.Stat(file); err != nil {
			return "", "", &embedded.NotFoundError{Programs: name, Where: "in " + jars, Package: both}
		}
		names = append(names, file)
	}
	return path, strings.Join(names, ":"), nil
}
