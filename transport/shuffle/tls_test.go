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

// TestTLSAgainstPlain: a worker without TLS does not get in, and says so.
func TestTLSAgainstPlain(t *testing.T) {
	conf := selfSigned(t)
	f := newFleet(t, 2, twoWay(), fleetOptions{config: func(w string, c *Config) {
		c.SilentAfter = 300 * time.Millisecond
		if w == "w1" {
			c.TLS = conf
		}
	}})
	defer f.stop()
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	err := f.attempts["w0"].Connect(ctx)
	if err == nil || !strings.Contains(err.Error(), "connecting to worker") {
		t.Errorf("%v", err)
	}
}
