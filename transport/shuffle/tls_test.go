package shuffle

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"strait/transport/stream"
)

// selfSigned is a configuration that both ends of a fleet can use: each shows the certificate and trusts it.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func TestTLS(t *testing.T) {
	conf := selfSigned(t)
	f := newFleet(t, 2, twoWay(), fleetOptions{config: func(_ string, c *Config) { c.TLS = conf }})
	defer f.stop()
	f.connect()
	s, sent := twoWay()[0].Tables[0], make(chan error, 1)
	go func() {
		out := f.attempts["w0"].Output(1, 0)
		for i := range 50 {
			if err := out.Send(f.ctx, rowsOf(s, 0, i*1000, 1000)); err != nil {
				sent <- err
				return
			}
		}
		sent <- out.End(f.ctx)
	}()
	rows := 0
	for in := f.attempts["w1"].Input(1, 0); ; {
		item, err := next(f.ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if item.Kind == stream.End {
			break
		}
		rows += item.Batch.Rows
	}
	if err := <-sent; err != nil || rows != 50_000 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestTLSRefuses: workers that do not share TLS do not meet, and each says which setting to look at.
func TestTLSRefuses(t *testing.T) {
	ours, theirs := selfSigned(t), selfSigned(t)
	silent := ours.Clone()
	silent.Certificates = nil
	f := func(name string, w0, w1 *tls.Config, want string) {
		t.Helper()
		f := newFleet(t, 2, twoWay(), fleetOptions{config: func(w string, c *Config) {
			c.SilentAfter = 300 * time.Millisecond
			c.TLS = map[string]*tls.Config{"w0": w0, "w1": w1}[w]
		}})
		defer f.stop()
		ctx, cancel := context.WithTimeout(f.ctx, 2*time.Second)
		defer cancel()
		if err := f.attempts["w0"].Connect(ctx); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "worker.data.tls") {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	f("plain to TLS", nil, ours, "this worker needs it too")
	f("TLS to plain", ours, nil, "has to be set there too")
	f("another authority", ours, theirs, "the certificate of worker w1")
	f("no certificate", silent, ours, "does not accept the certificate of this one")
}
