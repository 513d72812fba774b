// Command webhook is the peer as a server, on controller-runtime: what people
// would write today.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"podlayer.dev/peer/decide"
)

type mutator struct {
	layers *decide.Layers
}

// Handle patches the pod and lets controller-runtime find the difference.
func (m *mutator) Handle(_ context.Context, req admission.Request) admission.Response {
	patched, err := m.layers.PatchPod(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, patched)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:9443", "listen address")
	cert := flag.String("cert", "tls.crt", "certificate")
	key := flag.String("key", "tls.key", "private key, in the certificate's folder")
	dir := flag.String("layers", "layers", "folder of *.yaml layers")
	flag.Parse()

	layers, err := decide.Load(*dir)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrllog.SetLogger(zap.New(zap.UseDevMode(false)))
	host, text, err := net.SplitHostPort(*addr)
	if err != nil {
		log.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	server := webhook.NewServer(webhook.Options{
		Host: host, Port: port,
		CertDir: filepath.Dir(*cert), CertName: filepath.Base(*cert), KeyName: filepath.Base(*key),
	})
	server.Register("/mutate", &admission.Webhook{Handler: &mutator{layers: layers}})
	if err := server.Start(ctx); err != nil {
		log.Fatal(err)
	}
}
