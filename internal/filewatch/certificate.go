package filewatch

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Certificate is that of a server, as its files are now. Files that break are logged, and it stays what it was. It is for several goroutines at once.
type Certificate struct {
	log *slog.Logger

	mu    sync.Mutex
	watch Watch // certificate and key
	pair  *tls.Certificate
}

// OpenCertificate reads PEM files of a certificate and its key.
func OpenCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{log: log, watch: Watch{Files: []string{cert, key}}}
	c.watch.Read = c.read
	return c, c.watch.Look(time.Now())
}

func (c *Certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.watch.Files[0], c.watch.Files[1])
	if err != nil {
		return err
	}
	c.pair = &pair
	return nil
}

// now is the pair for a connection.
func (c *Certificate) now(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.watch.Look(time.Now()); err != nil {
		c.log.Error("the certificate of the server stays as it was: mend the files", "files", fmt.Sprint(c.watch.Files), "err", err)
	}
	return c.pair, nil
}

// Names tells whether the certificate is for a host; a nil one is for none.
func (c *Certificate) Names(host string) bool {
	if c == nil {
		return false
	}
	pair, _ := c.now(nil) // it has none
	return pair.Leaf.VerifyHostname(host) == nil
}

// Config is that of the server: TLS 1.2 or later.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.now}
}
