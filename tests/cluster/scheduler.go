package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// runScheduler runs kube-scheduler without its command: the command would set up the process's logging and feature
// gates, which kube-apiserver has done. It is the only one, so it is elected by nobody, and it serves nothing.
func runScheduler(ctx context.Context, kubeconfig string) error {
	scheduler := options.NewOptions()
	flags := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, set := range scheduler.Flags.FlagSets {
		flags.AddFlagSet(set)
	}
	err := flags.Parse([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
	})
	if err != nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	config, instance, err := app.Setup(ctx, scheduler)
	if err != nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	return fmt.Errorf("kube-scheduler: %w", app.Run(ctx, config, instance))
}
