package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Node is a running node.
type Node struct {
	config  config
	address string
	// Holds the address, if the node chose it.
	own  place
	port int
	// What every process of this life of the node carries.
	mark         string
	folder       string
	context      context.Context
	client       kubernetes.Interface
	link         *link
	images       images
	launcher     *launcher
	places       *places
	hollowPlaces *hollowPlaces
	queue        workqueue.TypedRateLimitingInterface[string]
	pods         cache.SharedInformer
	// The goroutines of runners.
	lives sync.WaitGroup

	mutex   sync.Mutex
	runners map[types.UID]*runner
	hollow  map[types.UID]netip.Addr
	// The version of the last status that was written for a pod.
	written map[types.UID]uint64
	// The images that were made of containers of this node.
	made images
}

func newMark() string { return "node-" + rand.Text() }

// register makes the node's object, or takes over the one with its name, and posts its first status.
func (n *Node) register() (types.UID, error) {
	labels := map[string]string{
		"kubernetes.io/hostname": n.config.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH,
	}
	for key, value := range n.config.labels {
		labels[key] = value
	}
	nodes := n.client.CoreV1().Nodes()
	object := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.name, Labels: labels},
		Spec:       v1.NodeSpec{Taints: n.config.taints, ProviderID: "sandgate://" + n.config.name},
		Status:     n.status(time.Now()),
	}
	made, err := nodes.Create(n.context, object, metav1.CreateOptions{})
	for apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		made, err = nodes.Get(n.context, n.config.name, metav1.GetOptions{})
		if err == nil {
			made.Labels, made.Spec.Taints = labels, n.config.taints
			made, err = nodes.Update(n.context, made, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return "", fmt.Errorf("registration: %w", err)
	}
	return made.UID, n.report()
}

// report posts the node's status. The API server taints a new node as not ready, and the controller that lifts the
// taint takes its time or is not there: the node, which is ready, lifts it itself.
func (n *Node) report() error {
	for {
		object, err := n.client.CoreV1().Nodes().Get(n.context, n.config.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("status of the node: %w", err)
		}
		before := object.Status.Conditions
		object.Status = n.status(time.Now())
		for i := range object.Status.Conditions {
			keepTransition(&object.Status.Conditions[i], before)
		}
		object, err = n.client.CoreV1().Nodes().UpdateStatus(n.context, object, metav1.UpdateOptions{})
		if err == nil && lift(object) {
			_, err = n.client.CoreV1().Nodes().Update(n.context, object, metav1.UpdateOptions{})
		}
		if err == nil || !apierrors.IsConflict(err) {
			return err
		}
	}
}

func keepTransition(condition *v1.NodeCondition, before []v1.NodeCondition) {
	for i := range before {
		if before[i].Type == condition.Type && before[i].Status == condition.Status {
			condition.LastTransitionTime = before[i].LastTransitionTime
		}
	}
}

// lift removes the taint that every new node gets and says whether it was there.
func lift(object *v1.Node) bool {
	var kept []v1.Taint
	for _, taint := range object.Spec.Taints {
		if taint.Key != v1.TaintNodeNotReady || taint.Effect != v1.TaintEffectNoSchedule {
			kept = append(kept, taint)
		}
	}
	lifted := len(kept) < len(object.Spec.Taints)
	object.Spec.Taints = kept
	return lifted
}

func (n *Node) status(now time.Time) v1.NodeStatus {
	at := metav1.NewTime(now)
	conditions := []v1.NodeCondition{{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "the node runs pods",
		LastHeartbeatTime: at, LastTransitionTime: at,
	}}
	for _, pressure := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		conditions = append(conditions, v1.NodeCondition{
			Type: pressure, Status: v1.ConditionFalse, Reason: "KubeletHasSufficient", LastHeartbeatTime: at, LastTransitionTime: at,
		})
	}
	capacity := v1.ResourceList{
		v1.ResourcePods:             *resource.NewQuantity(int64(n.config.capacity), resource.DecimalSI),
		v1.ResourceCPU:              resource.MustParse("20k"),
		v1.ResourceMemory:           resource.MustParse("64Ti"),
		v1.ResourceEphemeralStorage: resource.MustParse("64Ti"),
	}
	return v1.NodeStatus{
		Capacity: capacity, Allocatable: capacity.DeepCopy(), Conditions: conditions,
		// No host name: the API server would try to resolve it before it takes the address.
		Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: n.address}},
		DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: int32(n.port)}},
		NodeInfo: v1.NodeSystemInfo{
			KubeletVersion: "v1.36.3-sandgate", OSImage: "processes of this machine", OperatingSystem: "linux",
			Architecture: runtime.GOARCH, ContainerRuntimeVersion: "process://1", MachineID: n.config.name,
			SystemUUID: n.config.name, BootID: n.mark, KernelVersion: "none",
		},
	}
}

// beat renews the node's lease and its status until the node ends. After a cut both come at once.
func (n *Node) beat(uid types.UID, healed <-chan struct{}) {
	lease, status := time.NewTicker(n.config.heartbeat), time.NewTicker(n.config.statusInterval)
	defer lease.Stop()
	defer status.Stop()
	say := func(err error) {
		if err != nil && n.context.Err() == nil {
			klog.InfoS("The node's heartbeat failed", "error", err)
		}
	}
	for n.link.wait(n.context) == nil {
		say(n.renew(uid))
		select {
		case <-lease.C:
		case <-status.C:
			say(n.report())
		case <-healed:
			say(n.report())
		case <-n.context.Done():
			return
		}
	}
}

// renew makes the node's lease new.
func (n *Node) renew(uid types.UID) error {
	ctx, cancel := context.WithTimeout(n.context, 10*time.Second)
	defer cancel()
	leases := n.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	now := metav1.NowMicro()
	seconds := int32(max(4*n.config.heartbeat/time.Second, 1))
	lease, err := leases.Get(ctx, n.config.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Name: n.config.name, Namespace: v1.NamespaceNodeLease,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.config.name, UID: uid}},
			},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.config.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &n.config.name, &seconds, &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
