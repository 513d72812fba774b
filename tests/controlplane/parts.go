package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones; the machine may have no database of them

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // what the real kubectl links
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the real parts' metrics
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Each of these is the body of the `main` of the program it is named after.

func runEtcd([]string) int {
	etcdmain.Main(os.Args)
	return 0
}

func runAPIServer([]string) int {
	return cli.Run(apiserver.NewAPIServerCommand())
}

func runControllerManager([]string) int {
	return cli.Run(controllermanager.NewControllerManagerCommand())
}

func runScheduler([]string) int {
	return cli.Run(scheduler.NewSchedulerCommand())
}

func runKubectl([]string) int {
	// The verbosity counts while the command is still being built, see
	// kubectl's own main.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
}
