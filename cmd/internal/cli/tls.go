package cli

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"strait/cmd/internal/settings"
	"strait/kv/embed"
)

// certificates are the files of one group of settings: etcd.tls, worker.data.tls, …
type certificates struct {
	set   *settings.Values
	group string
	embed.TLS
}

// certificatesOf reads which files a group names, and refuses halves. mutual: both sides show one, so a
// certificate goes with an authority.
func certificatesOf(set *settings.Values, group string, mutual bool) (certificates, error) {
	c := certificates{set, group, embed.TLS{CA: set.String(group + ".ca"), Cert: set.String(group + ".cert"), Key: set.String(group + ".key")}}
	name := func(part string) string { return set.Name(group + part) }
	switch {
	case c.Cert != "" && c.Key == "":
		return c, failf("%s is set and %s is not; a certificate needs its key", name(".cert"), name(".key"))
	case c.Key != "" && c.Cert == "":
		return c, failf("%s is set and %s is not; a key needs its certificate", name(".key"), name(".cert"))
	case mutual && (c.Cert == "") != (c.CA == ""):
		return c, failf("%s, %s and %s belong together: both sides show a certificate of that authority", name(".ca"), name(".cert"), name(".key"))
	}
	_, err := c.config() // files that cannot be read are told before anything starts
	return c, err
}

// config is the configuration of both ends of a connection; nil where no file is named. A certificate that is
// replaced on disk counts from the next connection on.
func (c certificates) config() (*tls.Config, error) {
	if c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, failf("%s: %v", c.set.Name(c.group+".ca"), err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, failf("%s: %s holds no certificate in PEM", c.set.Name(c.group+".ca"), c.CA)
		}
		conf.RootCAs, conf.ClientCAs, conf.ClientAuth = pool, pool, tls.RequireAndVerifyClientCert
	}
	if c.Cert != "" {
		first, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, failf("%s, %s: %v", c.set.Name(c.group+".cert"), c.set.Name(c.group+".key"), err)
		}
		now := func() (*tls.Certificate, error) {
			if pair, err := tls.LoadX509KeyPair(c.Cert, c.Key); err == nil {
				return &pair, nil
			}
			return &first, nil // half of a replacement is there
		}
		conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return now() }
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return now() }
	}
	return conf, nil
}
