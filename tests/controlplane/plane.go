package main

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// plane is one control plane: its files and its running parts.
type plane struct {
	dir      string
	services string
	// admission is the API server's admission configuration, or empty.
	admission string
	parts     []*part // in the order in which they were started
	died      chan *part
}

// start returns when all that a test relies on is there. On an error, and
// afterwards too, stop must be called.
func (p *plane) start(ctx context.Context) (report, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	p.died = make(chan *part, 4)
	for _, dir := range []string{p.dir, p.path("home"), p.path("log")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return report{}, err
		}
	}
	secrets, err := writeCredentials(p)
	if err != nil {
		return report{}, err
	}
	probe := newProbe(p, secrets)

	etcd, err := p.startEtcd(ctx, probe)
	if err != nil {
		return report{}, err
	}
	server, err := p.startAPIServer(ctx, probe, etcd)
	if err != nil {
		return report{}, err
	}
	if err := writeKubeconfig(p.path("kubeconfig"), server, secrets.admin, secrets.caPEM); err != nil {
		return report{}, err
	}
	if err := p.startControllers(ctx, probe); err != nil {
		return report{}, err
	}
	for _, path := range []string{
		// Without it no pod is admitted to the namespace.
		"/api/v1/namespaces/default/serviceaccounts/default",
		// These are assembled in the background: wait, as tests read them.
		"/openapi/v3/api/v1",
		"/openapi/v2",
	} {
		if err := probe.wait(ctx, server+path); err != nil {
			return report{}, err
		}
	}
	return report{
		Kubeconfig:            p.path("kubeconfig"),
		Server:                server,
		Token:                 secrets.admin,
		CA:                    p.path("ca.crt"),
		JaneToken:             secrets.jane,
		ServiceClusterIPRange: p.services,
		Logs:                  p.path("log"),
	}, nil
}

func (p *plane) startEtcd(ctx context.Context, probe *probe) (url string, err error) {
	address, _, err := freeAddress()
	if err != nil {
		return "", err
	}
	url = "https://" + address
	err = p.run("etcd",
		"--data-dir="+p.path("etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		// Nobody is a peer of it: any port does, and nobody needs to know it.
		"--listen-peer-urls=http://127.0.0.1:0",
		"--cert-file="+p.path("tls.crt"), "--key-file="+p.path("tls.key"),
		// The data needn't survive a power failure.
		"--unsafe-no-fsync",
		// It waits so long for other voters before it elects itself.
		"--heartbeat-interval=20", "--election-timeout=200",
	)
	if err != nil {
		return "", err
	}
	return url, probe.wait(ctx, url+"/health")
}

func (p *plane) startAPIServer(ctx context.Context, probe *probe, etcd string) (url string, err error) {
	address, port, err := freeAddress()
	if err != nil {
		return "", err
	}
	url = "https://" + address
	arguments := []string{
		"--etcd-servers=" + etcd, "--etcd-cafile=" + p.path("ca.crt"),
		"--bind-address=127.0.0.1", "--secure-port=" + port,
		// A machine without a network has no other address. An endpoint can't be
		// a loopback address, so none is published for the service `kubernetes`.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + p.path("apiserver"),
		"--tls-cert-file=" + p.path("tls.crt"), "--tls-private-key-file=" + p.path("tls.key"),
		"--service-account-key-file=" + p.path("service-account.key"),
		"--service-account-signing-key-file=" + p.path("service-account.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=" + p.services,
		"--token-auth-file=" + p.path("tokens.csv"),
		"--authorization-mode=RBAC,Node",
		"--allow-privileged=true",
	}
	if p.admission != "" {
		arguments = append(arguments, "--admission-control-config-file="+p.admission)
	}
	err = p.run("kube-apiserver", arguments...)
	if err != nil {
		return "", err
	}
	return url, probe.wait(ctx, url+"/readyz")
}

func (p *plane) startControllers(ctx context.Context, probe *probe) error {
	flags := map[string][]string{
		"kube-controller-manager": {
			"--service-account-private-key-file=" + p.path("service-account.key"),
			"--root-ca-file=" + p.path("ca.crt"),
			"--use-service-account-credentials=true",
			// A test that waits for 500 pods shall not wait for the client's
			// own throttle (20 requests a second).
			"--kube-api-qps=500", "--kube-api-burst=1000",
		},
		"kube-scheduler": {},
	}
	var healthz []string
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		address, port, err := freeAddress()
		if err != nil {
			return err
		}
		err = p.run(name, append(flags[name],
			"--kubeconfig="+p.path("kubeconfig"),
			"--leader-elect=false",
			"--bind-address=127.0.0.1", "--secure-port="+port,
			"--cert-dir="+p.path(name),
			"--tls-cert-file="+p.path("tls.crt"), "--tls-private-key-file="+p.path("tls.key"),
		)...)
		if err != nil {
			return err
		}
		healthz = append(healthz, "https://"+address+"/healthz")
	}
	for _, url := range healthz {
		if err := probe.wait(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

// wait returns why the control plane is to end.
func (p *plane) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case part := <-p.died:
		return part.obituary()
	}
}

// stop ends the parts, each before the one that it talks to.
func (p *plane) stop() {
	for i := len(p.parts) - 1; i >= 0; i-- {
		p.parts[i].stop()
	}
	_ = os.RemoveAll(p.dir)
}

func (p *plane) path(name string) string {
	return filepath.Join(p.dir, name)
}
