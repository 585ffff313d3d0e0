package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/redis"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/internal/testenv/long"
)

// Sentinels may ask for a name and a password of their own.
func TestSentinelCredentials(t *testing.T) {
	long.Test(t, "runs a sentinel")
	master := testenv.StartRedis(t, embedded.RedisOptions{Password: "hunter2"})
	_, port, err := net.SplitHostPort(master.Addr)
	testenv.Must(t, err)
	addr := testenv.StartSentinel(t, "sentinel monitor plant 127.0.0.1 "+port+" 1\nsentinel auth-pass plant hunter2\nrequirepass swordfish\nuser observer on >haddock +@all\n")
	for name, c := range map[string]struct {
		o  redis.Options
		ok bool
	}{
		"password":          {redis.Options{SentinelPassword: "swordfish"}, true},
		"name and password": {redis.Options{SentinelUsername: "observer", SentinelPassword: "haddock"}, true},
		"none":              {redis.Options{}, false},
		"that of the nodes": {redis.Options{SentinelPassword: "hunter2"}, false},
		"that of another":   {redis.Options{SentinelUsername: "observer", SentinelPassword: "swordfish"}, false},
	} {
		c.o.URL = "redis+sentinel://:hunter2@" + addr + "/plant"
		rdb, err := connect(t, c.o)
		switch {
		case c.ok && (err != nil || rdb.Mode() != rueidis.ClientModeSentinel):
			t.Errorf("%s: %v", name, err)
		case !c.ok && (err == nil || !strings.Contains(err.Error(), "--redis-sentinel-password") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "swordfish")):
			t.Errorf("%s: error is %v, want one that names the setting and no password", name, err)
		}
	}
	if _, err := connect(t, redis.Options{URL: "redis+sentinel://:hunter2@" + addr + "/office", SentinelPassword: "swordfish"}); err == nil || !strings.Contains(err.Error(), "master set of that name") {
		t.Errorf("a master set nobody knows: %v", err)
	}
	if _, err := connect(t, redis.Options{URL: "redis+sentinel://:wrong@" + addr + "/plant", SentinelPassword: "swordfish"}); err == nil || !strings.Contains(err.Error(), "refuses the user name or password") {
		t.Errorf("a wrong password of the nodes: %v", err)
	}
}

// Each sentinel and each node has a certificate for its own address alone, and the client follows a failover from one to the next.
func TestSentinelTLSNames(t *testing.T) {
	long.Test(t, "runs a sentinel")
	a := newAuthority(t)
	master, replica := a.server(t, "127.0.0.2"), a.server(t, "127.0.0.3")
	replica.do(t, "REPLICAOF", master.host, master.port)
	sentinelPort := strconv.Itoa(testenv.FreePort(t, "127.0.0.1"))
	config := strings.Join(append(a.config(t, "127.0.0.1", sentinelPort),
		fmt.Sprintf("sentinel monitor plant %s %s 1", master.host, master.port),
		fmt.Sprintf("sentinel down-after-milliseconds plant %d", testenv.DownAfter), "sentinel failover-timeout plant 5000"), "\n") + "\n"
	guard := testenv.StartSentinel(t, config)
	url := "rediss+sentinel://127.0.0.1:" + sentinelPort + "/plant"
	rdb, err := connect(t, redis.Options{URL: url, CAFile: a.file})
	testenv.Must(t, err)
	if _, err := connect(t, redis.Options{URL: url, CAFile: a.file, ServerName: "127.0.0.2"}); err == nil || !strings.Contains(err.Error(), "--redis-server-name") {
		t.Errorf("with one name for all: %v", err)
	}
	sentinel, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{guard}, DisableCache: true, ForceSingleClient: true})
	testenv.Must(t, err)
	defer sentinel.Close()
	eventually(t, "the sentinel knows the replica", func() bool {
		known, err := sentinel.Do(t.Context(), sentinel.B().Arbitrary("SENTINEL", "MASTER", "plant").Build()).AsStrMap()
		return err == nil && known["num-slaves"] == "1" && known["flags"] == "master"
	})
	write := func() error { return rdb.Do(t.Context(), rdb.B().Set().Key("k").Value("v").Build()).Error() }
	testenv.Must(t, write())
	testenv.Must(t, master.child.Kill())
	eventually(t, "the client writes to the new master, under its own name", func() bool { return write() == nil })
}

var eventually = testenv.Eventually

// authority signs certificates of servers.
type authority struct {
	file string // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem"), cert: &x509.Certificate{Subject: pkix.Name{CommonName: "plant"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true}}
	a.key = a.sign(t, a.cert, nil, a.file)
	return a
}

// sign writes the certificate to a file, made of template and signed by the authority, or by itself if that has no key yet.
func (a *authority) sign(t *testing.T, template *x509.Certificate, ip net.IP, file string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	a.n++
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(a.n), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	parent, by := a.cert, a.key
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	testenv.Must(t, err)
	writePEM(t, file, "CERTIFICATE", der)
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	testenv.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// pair makes a certificate for an address alone, and its key.
func (a *authority) pair(t *testing.T, host string) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: host}}, net.ParseIP(host), cert))
	testenv.Must(t, err)
	writePEM(t, key, "PRIVATE KEY", der)
	return cert, key
}

// config is how a server speaks TLS at an address, with a certificate for that alone.
func (a *authority) config(t *testing.T, host, port string) []string {
	t.Helper()
	cert, key := a.pair(t, host)
	return []string{"tls-port " + port, "tls-cert-file " + cert, "tls-key-file " + key, "tls-ca-cert-file " + a.file, "tls-auth-clients no", "tls-replication yes"}
}

// tlsServer is a server that speaks TLS at host and port, and plainly at another.
type tlsServer struct {
	child             *embedded.Server
	host, port, plain string
}

func (a *authority) server(t *testing.T, host string) *tlsServer {
	t.Helper()
	port := strconv.Itoa(testenv.FreePort(t, host))
	srv := testenv.StartRedis(t, embedded.RedisOptions{Config: append(a.config(t, host, port), "bind 127.0.0.1 "+host, "replica-announce-ip "+host, "replica-announce-port "+port, "repl-ping-replica-period 1")})
	return &tlsServer{child: srv.Server, host: host, port: port, plain: srv.Addr}
}

func (s *tlsServer) do(t *testing.T, args ...string) {
	t.Helper()
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.plain}, DisableCache: true, ForceSingleClient: true})
	testenv.Must(t, err)
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	testenv.Must(t, rdb.Do(ctx, rdb.B().Arbitrary(args...).Build()).Error())
}
