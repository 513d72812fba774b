package main

import (
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
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// credentials are made anew for each control plane and die with its folder.
type credentials struct {
	admin string // token of a member of system:masters, who may do everything
	jane  string // token of a user who may do nothing until a test allows it
	caPEM []byte
}

// writeCredentials makes ca.crt, tls.crt and tls.key (for every part, all on
// 127.0.0.1), service-account.key and tokens.csv.
func writeCredentials(p *plane) (credentials, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	ca := certificate("podlayer test CA", 1)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return credentials{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	leaf := certificate("podlayer test control plane", 2)
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	leaf.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return credentials{}, err
	}
	serviceAccountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return credentials{}, err
	}
	serviceAccountPEM, err := encodeKey(serviceAccountKey)
	if err != nil {
		return credentials{}, err
	}

	made := credentials{admin: rand.Text(), jane: rand.Text(), caPEM: encodeCertificate(caDER)}
	tokens := fmt.Sprintf("%s,admin,admin,system:masters\n%s,jane,jane\n", made.admin, made.jane)
	for name, content := range map[string][]byte{
		"ca.crt":              made.caPEM,
		"tls.crt":             encodeCertificate(leafDER),
		"tls.key":             keyPEM,
		"service-account.key": serviceAccountPEM,
		"tokens.csv":          []byte(tokens),
	} {
		if err := os.WriteFile(p.path(name), content, 0o600); err != nil {
			return credentials{}, err
		}
	}
	return made, nil
}

func certificate(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), // clocks of containers drift
		NotAfter:     time.Now().Add(7 * 24 * time.Hour),
	}
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writeKubeconfig holds everything itself and names no other file, so that tests
// may copy it.
func writeKubeconfig(path, server, token string, caPEM []byte) error {
	const name = "podlayer-test"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: caPEM}
	config.AuthInfos[name] = &api.AuthInfo{Token: token}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}
