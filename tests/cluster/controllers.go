package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
)

const (
	// The resync of kube-controller-manager lies between 12 and 24 hours; no cluster here lives that long.
	resync = 12 * time.Hour
	// These are the defaults of kube-controller-manager.
	namespaceResync        = 5 * time.Minute
	namespaceWorkers       = 10
	jobWorkers             = 5
	garbageWorkers         = 20
	terminatedPodThreshold = 12500
	nodeEvictionRate       = 0.1
	secondaryEvictionRate  = 0.01
	largeClusterThreshold  = 50
	unhealthyZoneThreshold = 0.55
)

// controllersFlags are the flags of the third part. Those that kube-controller-manager has too have its names; their
// defaults fit a machine of tests, where seconds matter.
type controllersFlags struct {
	kubeconfig        string
	monitorPeriod     time.Duration
	monitorGrace      time.Duration
	startupGrace      time.Duration
	discoveryInterval time.Duration
	evictionRate      float32
}

func parseControllersFlags(arguments []string) (*controllersFlags, error) {
	flags := &controllersFlags{}
	set := pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	set.StringVar(&flags.kubeconfig, "kubeconfig", "", "How to reach the API server, with all rights")
	set.DurationVar(&flags.monitorPeriod, "node-monitor-period", time.Second, "How often the nodes are looked at")
	set.DurationVar(&flags.monitorGrace, "node-monitor-grace-period", 40*time.Second,
		"How long a node may be silent before it counts as lost")
	set.DurationVar(&flags.startupGrace, "node-startup-grace-period", 60*time.Second,
		"How long a new node may be silent")
	set.DurationVar(&flags.discoveryInterval, "discovery-interval", time.Second,
		"How often the garbage collector looks for new kinds; 30s in kube-controller-manager")
	set.Float32Var(&flags.evictionRate, "node-eviction-rate", nodeEvictionRate,
		"How many lost nodes are emptied a second")
	if err := set.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.kubeconfig == "" {
		return nil, errors.New("the flag --kubeconfig of the controllers is missing")
	}
	return flags, nil
}

// How long one answer about the server's readiness may take.
const readyPatience = 5 * time.Second

// runControllers waits for the API server and runs what a cluster needs of kube-controller-manager, and kube-scheduler.
// It returns only when something could not start or has ended.
func runControllers(ctx context.Context, flags *controllersFlags) error {
	config, err := ready(ctx, flags.kubeconfig)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	report := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	go func() { report(runScheduler(ctx, flags.kubeconfig)) }()
	if err := startControllers(ctx, config, flags, report); err != nil {
		return err
	}
	return <-ended
}

// ready gives the config of the kubeconfig once the server is. The kubeconfig names the certificate that the server
// makes at its first start, so it is read anew each time.
func ready(ctx context.Context, kubeconfig string) (*rest.Config, error) {
	var last error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			last = err
			continue
		}
		// The server is on this machine and belongs to the test: nobody is to be protected from us.
		config.QPS = -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			last = err
			continue
		}
		// A question that a starting server has taken and forgotten is asked again.
		try, cancel := context.WithTimeout(ctx, readyPatience)
		_, last = client.RESTClient().Get().AbsPath("/readyz").DoRaw(try)
		cancel()
		if last == nil {
			return config, nil
		}
	}
	return nil, fmt.Errorf("the API server did not become ready: %w", last)
}

// startControllers constructs every controller, starts the informers they share, and runs them.
func startControllers(ctx context.Context, config *rest.Config, flags *controllersFlags, report func(error)) error {
	client := func(name string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(rest.AddUserAgent(config, name))
	}
	shared := informers.NewSharedInformerFactory(client("shared-informers"), resync)
	core := shared.Core().V1()
	kinds, err := metadata.NewForConfig(rest.AddUserAgent(config, "metadata"))
	if err != nil {
		return err
	}

	nodes, err := nodelifecycle.NewNodeLifecycleController(ctx, shared.Coordination().V1().Leases(), core.Pods(),
		core.Nodes(), shared.Apps().V1().DaemonSets(), client("node-controller"), flags.monitorPeriod,
		flags.startupGrace, flags.monitorGrace, flags.evictionRate, secondaryEvictionRate, largeClusterThreshold,
		unhealthyZoneThreshold)
	if err != nil {
		return fmt.Errorf("node lifecycle: %w", err)
	}
	taints, err := tainteviction.New(ctx, client("taint-eviction"), core.Pods(), core.Nodes(),
		names.TaintEvictionController)
	if err != nil {
		return fmt.Errorf("taint eviction: %w", err)
	}
	jobs, err := job.NewController(ctx, client("job-controller"), core.Pods(), shared.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(),
		core.Namespaces(), client("service-account-controller"), serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	pods := podgc.NewPodGC(ctx, client("pod-garbage-collector"), core.Pods(), core.Nodes(), terminatedPodThreshold)
	cleaner := client("namespace-controller")
	namespaces := namespace.NewNamespaceController(ctx, cleaner, kinds,
		cleaner.Discovery().ServerPreferredNamespacedResources, core.Namespaces(), namespaceResync, v1.FinalizerKubernetes)
	started := make(chan struct{})
	garbage, discovered, err := newGarbageCollector(ctx, config, kinds, shared, started)
	if err != nil {
		return fmt.Errorf("garbage collector: %w", err)
	}

	run := func(name string, controller func()) {
		go func() {
			controller()
			report(fmt.Errorf("the controller %s has ended", name))
		}()
	}
	run("node lifecycle", func() { nodes.Run(ctx) })
	run("taint eviction", func() { taints.Run(ctx) })
	run("jobs", func() { jobs.Run(ctx, jobWorkers) })
	run("service accounts", func() { accounts.Run(ctx, 1) })
	run("pod garbage collector", func() { pods.Run(ctx) })
	run("namespaces", func() { namespaces.Run(ctx, namespaceWorkers) })
	run("garbage collector", func() { garbage.Run(ctx, garbageWorkers, flags.discoveryInterval) })
	run("garbage collector's discovery", func() { garbage.Sync(ctx, discovered, flags.discoveryInterval) })
	shared.Start(ctx.Done())
	close(started)
	return nil
}

func newGarbageCollector(
	ctx context.Context, config *rest.Config, kinds metadata.Interface, shared informers.SharedInformerFactory,
	started <-chan struct{},
) (*garbagecollector.GarbageCollector, discovery.DiscoveryInterface, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "generic-garbage-collector"))
	if err != nil {
		return nil, nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	mapper.Reset()
	var resettable meta.ResettableRESTMapper = mapper
	ignored := map[schema.GroupResource]struct{}{}
	for resource := range garbagecollector.DefaultIgnoredResources() {
		ignored[resource] = struct{}{}
	}
	both := informerfactory.NewInformerFactory(shared, metadatainformer.NewSharedInformerFactory(kinds, resync))
	collector, err := garbagecollector.NewGarbageCollector(ctx, client, kinds, resettable, ignored, both, started)
	return collector, client.Discovery(), err
}
