// Command plain is the peer as a server on net/http alone: raw and tuned as
// package decide has them, and null, which answers that the pod is allowed and
// does nothing else, so that it shows what Go's server costs by itself.
package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podlayer.dev/peer/decide"
)

// largest is the body that is read at most, as controller-runtime has it.
const largest = 7 << 20

func main() {
	addr := flag.String("addr", "127.0.0.1:9443", "listen address")
	cert := flag.String("cert", "tls.crt", "certificate")
	key := flag.String("key", "tls.key", "private key")
	dir := flag.String("layers", "layers", "folder of *.yaml layers")
	mode := flag.String("mode", "raw", "raw, tuned or null")
	flag.Parse()

	handler, err := handlerOf(*mode, *dir)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mutate", handler)
	server := &http.Server{
		Addr: *addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	log.Fatal(server.ListenAndServeTLS(*cert, *key))
}

func handlerOf(mode, dir string) (http.HandlerFunc, error) {
	if mode == "null" {
		return null, nil
	}
	layers, err := decide.Load(dir)
	if err != nil {
		return nil, err
	}
	switch mode {
	case "raw":
		return decided(layers.Raw), nil
	case "tuned":
		return decided(layers.Tuned), nil
	default:
		return nil, fmt.Errorf("mode must be raw, tuned or null, not %q", mode)
	}
}

func decided(decide func([]byte) ([]jsonpatch.Operation, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		err := read(w, r, &review)
		if err == nil && review.Request == nil {
			err = errors.New("the review has no request")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		operations, err := decide(review.Request.Object.Raw)
		if err == nil && len(operations) > 0 {
			kind := admissionv1.PatchTypeJSONPatch
			response.PatchType = &kind
			response.Patch, err = json.Marshal(operations)
		}
		if err != nil {
			response.Allowed = false
			response.Result = &metav1.Status{Code: http.StatusBadRequest, Message: err.Error()}
		}
		answer(w, admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	}
}

func null(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := read(w, r, &review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	type response struct {
		UID     string `json:"uid"`
		Allowed bool   `json:"allowed"`
	}
	answer(w, struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Response   response `json:"response"`
	}{"admission.k8s.io/v1", "AdmissionReview", response{review.Request.UID, true}})
}

func read(w http.ResponseWriter, r *http.Request, review any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, review)
}

func answer(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone is told nothing.
	_ = json.NewEncoder(w).Encode(review)
}
