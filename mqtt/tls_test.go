package mqtt_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/taktworks/takt/internal/embedded"
	"github.com/taktworks/takt/internal/testenv"
	"github.com/taktworks/takt/mqtt"
)

// authority makes certificates signed by one root and writes them as PEM files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.make(t, "ca", nil)
	return a
}

func (a *authority) file(name string) string { return a.dir + "/" + name + ".pem" }

func (a *authority) make(t testing.TB, name string, ips []net.IP) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        a.cert == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	testenv.Must(t, err)
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		testenv.Must(t, err)
		a.key = key
	}
	private, err := x509.MarshalECPrivateKey(key)
	testenv.Must(t, err)
	writeFile(t, a.file(name), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, a.file(name+"-key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.make(t, "server", []net.IP{net.IPv4(127, 0, 0, 1)})
	a.make(t, "client", nil)
	port := testenv.FreePort(t, "127.0.0.1")
	testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{
		fmt.Sprintf("listener %d 127.0.0.1", port), "cafile " + a.file("ca"), "certfile " + a.file("server"), "keyfile " + a.file("server-key"), "require_certificate true",
	}})
	url := fmt.Sprintf("mqtts://127.0.0.1:%d", port)
	c := connected(t, url, "c", func(o *mqtt.Options) {
		o.CAFile, o.CertFile, o.KeyFile = a.file("ca"), a.file("client"), a.file("client-key")
	})
	box := newInbox()
	testenv.Must(t, c.Subscribe(within(t), box.sub("a")))
	big := bytes.Repeat([]byte("x"), 300_000)
	publish(t, c, mqtt.Message{Topic: "a", Payload: big, QoS: 1})
	if in := box.next(t); !bytes.Equal(in.Payload, big) {
		t.Error("damaged")
	}
	for name, change := range map[string]func(*mqtt.Options){
		"certificate": func(o *mqtt.Options) { o.CAFile = a.file("ca") },
		"unknown authority": func(o *mqtt.Options) {
			o.CertFile, o.KeyFile = a.file("client"), a.file("client-key")
		},
	} {
		bad := newConn(t, url, "bad", change)
		run(t, bad.Run)
		eventually(t, name, func() bool {
			err := whyNotReady(t, bad)
			return err == nil || !strings.HasPrefix(err.Error(), "mqtt: not connected: context") // there was an attempt
		})
		if bad.Facts().Connected {
			t.Errorf("%s: connected", name)
		}
	}
}

// The configuration under deploy/mosquitto starts without a warning of mosquitto, and lets packets of any size through.
func TestShippedConfiguration(t *testing.T) {
	a := newAuthority(t)
	a.make(t, "server", []net.IP{net.IPv4(127, 0, 0, 1)})
	const files = "/etc/mosquitto/takt/"
	acl, err := os.ReadFile("../deploy/mosquitto/acl")
	testenv.Must(t, err)
	writeFile(t, a.dir+"/acl", string(acl))
	writeFile(t, a.dir+"/passwords", "")
	if out, err := exec.CommandContext(t.Context(), "mosquitto_passwd", "-b", a.dir+"/passwords", "takt", "secret").CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_passwd: %v: %s", err, out)
	}
	text, err := os.ReadFile("../deploy/mosquitto/mosquitto.conf")
	testenv.Must(t, err)
	general, listener, found := strings.Cut(strings.NewReplacer(files+"ca.crt", a.file("ca"), files+"server.crt", a.file("server"),
		files+"server.key", a.file("server-key"), files, a.dir+"/", "/var/lib/mosquitto", a.dir).Replace(string(text)), "listener 8883\n")
	if !found {
		t.Fatal("no listener 8883")
	}
	var log bytes.Buffer
	b := testenv.StartMosquitto(t, embedded.MosquittoOptions{Config: []string{general}, Listen: []string{listener}, Stdout: &log})
	c := connected(t, "mqtts://takt:secret@"+b.Addr, "takt", func(o *mqtt.Options) { o.CAFile = a.file("ca") })
	if limit := c.Facts().MaximumPacketSize; limit != 268435455 {
		t.Errorf("the largest packet is of %d bytes", limit)
	}
	testenv.Must(t, b.Server.Stop())
	if !strings.Contains(log.String(), "running") {
		t.Errorf("mosquitto has no log: %s", &log)
	}
	for line := range strings.Lines(log.String()) {
		said := strings.ToLower(line)
		if !strings.Contains(said, "run as root") && (strings.Contains(said, "warning") || strings.Contains(said, "deprecated") || strings.Contains(said, "error")) {
			t.Error(line)
		}
	}
}

// User and password reach the broker and no log.
func TestPassword(t *testing.T) {
	s := newScript(t, connackOK(), granting)
	var log bytes.Buffer
	url := strings.Replace(s.url, "mqtt://", "mqtt://user:s3cr3t@", 1)
	c := newConn(t, url, "c", func(o *mqtt.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	stop := run(t, c.Run)
	ready(t, c)
	text := fmt.Sprint(c, c.Facts(), c.Publish(within(t), mqtt.Message{}))
	stop()
	if text += log.String(); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "connected") {
		t.Error(text)
	}
	if p := s.connects()[0]; p.Username != "user" || string(p.Password) != "s3cr3t" {
		t.Errorf("%+v", p)
	}
}
