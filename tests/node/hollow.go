package node

import (
	"errors"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A hollow pod has no process. Without cues it has no runner either: its status is a function of its object and its
// address, written once, and its deletion is finished at once. Ten thousand of them cost ten thousand entries of a
// map. A cue other than readiness gives it a runner, which takes over what was written.

var errGone = errors.New("the pod is gone")

// quick says that a pod can do without a runner.
func (n *Node) quick(pod *v1.Pod) bool {
	asked, err := cuesOf(pod.Annotations)
	if err != nil || !asked.quick() || len(pod.Spec.InitContainers) > 0 || pod.Spec.ActiveDeadlineSeconds != nil {
		return false
	}
	return n.allHollow(pod, asked)
}

// allHollow says that no container of the pod has a process.
func (n *Node) allHollow(pod *v1.Pod, asked cues) bool {
	if asked.hollow {
		return true
	}
	for i := range pod.Spec.Containers {
		if found, _ := n.image(pod.Spec.Containers[i].Image); !found.Hollow {
			return false
		}
	}
	return true
}

func (n *Node) attendHollow(pod *v1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return n.finish(pod)
	}
	ip, err := n.hollowAddress(pod)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return n.write(pod, hollowView(pod, ip.String(), n.address, time.Now()))
}

// hollowView is the view of a pod whose containers run from the moment of its first status on. A container whose image
// changed has been restarted.
func hollowView(pod *v1.Pod, ip, hostIP string, now time.Time) *view {
	v := &view{ip: ip, hostIP: hostIP, startTime: now, prepared: true, initialized: true}
	asked, _ := cuesOf(pod.Annotations)
	for i := range pod.Spec.Containers {
		v.main = append(v.main, hollowContainer(pod, &pod.Spec.Containers[i], now))
		v.main[i].Ready = !asked.unready
	}
	return v
}

func hollowContainer(pod *v1.Pod, container *v1.Container, now time.Time) v1.ContainerStatus {
	s := slot{spec: container}
	since := now
	for i := range pod.Status.ContainerStatuses {
		before := &pod.Status.ContainerStatuses[i]
		if before.Name != container.Name || before.State.Running == nil {
			continue
		}
		since = before.State.Running.StartedAt.Time
		s.ran, s.restarts, s.image, s.id = true, before.RestartCount, before.Image, before.ContainerID
		s.last = before.LastTerminationState.Terminated
		if before.Image != container.Image {
			s.ended = &v1.ContainerStateTerminated{
				Reason: "Completed", ContainerID: before.ContainerID, StartedAt: before.State.Running.StartedAt,
				FinishedAt: metav1.NewTime(now).Rfc3339Copy(),
			}
			since = now
		}
	}
	if !s.ran || s.ended != nil {
		s.begin(pod.UID)
	}
	s.run = &run{since: since, started: true}
	return s.status(true)
}

// hollowAddress is the address of a hollow pod: the one that it has, the one that an earlier life of the node
// gave it, or a new one.
func (n *Node) hollowAddress(pod *v1.Pod) (netip.Addr, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if ip, known := n.hollow[pod.UID]; known {
		return ip, nil
	}
	if !n.exists(pod) {
		return netip.Addr{}, errGone
	}
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil && n.hollowPlaces.adopt(ip) {
		n.hollow[pod.UID] = ip
		return ip, nil
	}
	ip, err := n.hollowPlaces.take()
	if err != nil {
		return netip.Addr{}, err
	}
	n.hollow[pod.UID] = ip
	return ip, nil
}

func (n *Node) freeHollow(uid types.UID) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if ip, known := n.hollow[uid]; known {
		delete(n.hollow, uid)
		n.hollowPlaces.free(ip)
	}
}

// adoptAll takes the addresses of the hollow pods from an earlier life, before any new pod gets one.
func (n *Node) adoptAll() {
	for _, object := range n.pods.GetStore().List() {
		pod := object.(*v1.Pod)
		asked, _ := cuesOf(pod.Annotations)
		if pod.Status.PodIP != "" && !terminal(pod.Status.Phase) && n.allHollow(pod, asked) {
			// The address is new if somebody took the old one meanwhile; if there is none, the pod's turn will tell.
			_, _ = n.hollowAddress(pod)
		}
	}
}
