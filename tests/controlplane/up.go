package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

// report is the one line on stdout that says that everything is ready.
type report struct {
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	Token      string `json:"token"`
	CA         string `json:"ca"`
	// JaneToken is that of the user jane, who is in no group of her own.
	JaneToken             string `json:"janeToken"`
	ServiceClusterIPRange string `json:"serviceClusterIPRange"`
	// Logs is the folder with a log for each part, as long as it runs.
	Logs string `json:"logs"`
}

// attempts bounds how often another choice of ports is tried.
const attempts = 5

// errAsked is why a run ends that nothing is wrong with.
var errAsked = errors.New("asked to end")

// runUp starts a control plane, says where it is, keeps it until stdin is closed
// or a signal comes, and leaves neither processes nor files behind.
func runUp(args []string) int {
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	dir := flags.String("dir", "", "folder for all data: created, and removed at the end (required)")
	services := flags.String("service-cluster-ip-range", randomServiceRange(),
		"CIDR that Services get their addresses from; keep it inside 127.0.0.0/8, anywhere else something may answer")
	admission := flags.String("admission-control-config-file", "",
		"file for the API server's flag of this name; with it, webhooks can be shown a client certificate")
	_ = flags.Parse(args)
	if *dir == "" || flags.NArg() > 0 {
		flags.Usage()
		return 2
	}
	// Linux ties Pdeathsig to the thread that started the child, not to the
	// process: children must be started by a thread that never ends.
	runtime.LockOSThread()

	if err := supervise(endOfUse(), *dir, *services, *admission); err != nil && !errors.Is(err, errAsked) {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		return 1
	}
	return 0
}

// endOfUse is cancelled when whoever started this closed our stdin (as the
// kernel does when they die, however they die) or sent a signal.
func endOfUse() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// Nobody reads our stderr any more once they are gone; that must not end us
	// before the children are. (Notify, as Ignore would pass on to children.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		<-signals
		cancel(errAsked)
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errAsked)
	}()
	return ctx
}

func supervise(ctx context.Context, dir, services, admission string) error {
	dir, err := claim(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	for attempt := 1; ; attempt++ {
		plane := &plane{dir: filepath.Join(dir, fmt.Sprint(attempt)), services: services, admission: admission}
		ready, err := plane.start(ctx)
		if err == nil {
			err = say(ready)
		}
		if err == nil {
			err = plane.wait(ctx)
		}
		plane.stop()
		if !errors.Is(err, errPortTaken) || attempt == attempts {
			return err
		}
		fmt.Fprintln(os.Stderr, "controlplane: another process took a port first, trying others")
	}
}

// claim creates the folder. One that holds something is refused, for all that is
// in it will be removed.
func claim(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty: it would be removed at the end, name a new folder", dir)
	}
	return dir, nil
}

func say(ready report) error {
	line, err := json.Marshal(ready)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", line)
	return err
}
