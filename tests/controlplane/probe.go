package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"
)

// probe asks whether a part is ready. It trusts this control plane's own CA and
// nothing else: if another one got the port first, it is never mistaken for ours.
type probe struct {
	plane  *plane
	token  string
	client *http.Client
}

func newProbe(p *plane, secrets credentials) *probe {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secrets.caPEM)
	return &probe{plane: p, token: secrets.admin, client: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}}
}

// wait polls until the answer is 200. It ends early when a part died or nobody
// wants the control plane any more.
func (p *probe) wait(ctx context.Context, url string) error {
	for {
		problem := p.ask(ctx, url)
		if problem == nil {
			return nil
		}
		select {
		case part := <-p.plane.died:
			return part.obituary()
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
				return cause
			}
			return fmt.Errorf("%s is not ready in time: %w", url, problem)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

func (p *probe) ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.2000s", response.Status, body)
	}
	return nil
}
