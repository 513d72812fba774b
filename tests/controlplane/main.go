// Command controlplane is everything that podlayer's integration tests need of
// Kubernetes, in one binary: the parts of a control plane, kubectl, two oracles
// that answer with the Go libraries' own reading, and a supervisor.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// A command gets its arguments without its own name and returns an exit code.
// Exactly one runs per process: the parts of Kubernetes register global flags
// and metrics, so that two of them can't live in one process.
var commands = map[string]func(args []string) int{
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"kubectl":                 runKubectl,
	"schema":                  runSchema,
	"smp":                     runSMP,
	"yaml":                    runYAML,
}

func main() {
	if len(os.Args) < 2 {
		os.Exit(usage())
	}
	name, args := os.Args[1], os.Args[2:]
	if name == "up" {
		// Not in the table: it re-executes this binary, which the table's
		// initialisation must not depend on.
		os.Exit(runUp(args))
	}
	run, known := commands[name]
	if !known {
		os.Exit(usage())
	}
	// Kubernetes' commands read os.Args themselves, and print its first element.
	os.Args = append([]string{name}, args...)
	os.Exit(run(args))
}

func usage() int {
	names := []string{"up"}
	for name := range commands {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: controlplane %s [argument]...\n", strings.Join(names, "|"))
	return 2
}
