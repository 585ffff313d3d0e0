package console

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taktworks/takt/internal/filewatch"
)

// certificate is that of the console, as its files are now. Files that break are logged, and it stays what it was.
type certificate struct {
	log *slog.Logger

	mu    sync.Mutex
	watch filewatch.Watch // certificate and key
	pair  *tls.Certificate
}

func openCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{log: log, watch: filewatch.Watch{Files: []string{cert, key}}}
	c.watch.Read = c.read
	return c, c.watch.Look(time.Now())
}

func (c *certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.watch.Files[0], c.watch.Files[1])
	if err != nil {
		return err
	}
	c.pair = &pair
	return nil
}

// now is the pair for a connection.
func (c *certificate) now(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.watch.Look(time.Now()); err != nil {
		c.log.Error("the certificate of the console stays as it was: mend the files", "files", fmt.Sprint(c.watch.Files), "err", err)
	}
	return c.pair, nil
}

// names tells whether the certificate is for a host.
func (c *certificate) names(host string) bool {
	if c == nil {
		return false
	}
	pair, _ := c.now(nil) // it has none
	return pair.Leaf.VerifyHostname(host) == nil
}

// config is that of the server: TLS 1.2 or later.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.now}
}
