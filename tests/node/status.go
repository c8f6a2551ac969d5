package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// view is what a runner knows about its pod at one moment. A published view is never changed.
type view struct {
	ip        string
	hostIP    string
	startTime time.Time
	// In the order of the pod's spec.
	init, main []v1.ContainerStatus
	// Set once the phase is final; it does not change any more.
	terminal v1.PodPhase
	reason   string
	message  string
	// The pod has an address and folders.
	prepared bool
	// Every init container completed and every sidecar started, at least once.
	initialized bool
	// Nothing of the pod runs and nothing will.
	over bool
}

// podStatus is the status of a pod as the view has it. It is a function of its arguments: what others wrote into
// the pod's status (conditions of their own, the phase that is final already) is kept, and a condition keeps its
// transition time while its status does not change.
func podStatus(pod *v1.Pod, v *view, now time.Time) v1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.HostIP = v.hostIP
	status.HostIPs = []v1.HostIP{{IP: v.hostIP}}
	status.PodIP, status.PodIPs = v.ip, nil
	if v.ip != "" {
		status.PodIPs = []v1.PodIP{{IP: v.ip}}
	}
	if status.StartTime == nil {
		start := metav1.NewTime(v.startTime).Rfc3339Copy()
		status.StartTime = &start
	}
	status.InitContainerStatuses, status.ContainerStatuses = v.init, v.main
	if !terminal(pod.Status.Phase) {
		status.Phase = phase(v)
		status.Reason, status.Message = v.reason, v.message
	}
	ended := terminal(status.Phase)
	set := func(kind v1.PodConditionType, holds bool, reason, message string) {
		if holds {
			reason, message = "", ""
		}
		setCondition(&status, pod.Generation, kind, holds, reason, message, now)
	}
	set(v1.PodReadyToStartContainers, v.prepared && !ended, "", "")
	set(v1.PodInitialized, v.initialized, "ContainersNotInitialized", "containers with incomplete status")
	ready, reason, message := ready(pod, v, status.Phase)
	set(v1.ContainersReady, ready, reason, message)
	if ready && !gates(pod) {
		ready, reason, message = false, "ReadinessGatesNotReady", "a readiness gate is not true"
	}
	set(v1.PodReady, ready, reason, message)
	return status
}

func terminal(phase v1.PodPhase) bool {
	return phase == v1.PodSucceeded || phase == v1.PodFailed
}

// phase follows Kubernetes: a pod is pending until each of its containers has started once.
func phase(v *view) v1.PodPhase {
	if v.terminal != "" {
		return v.terminal
	}
	if !v.initialized {
		return v1.PodPending
	}
	for i := range v.main {
		if v.main[i].State.Waiting != nil && v.main[i].LastTerminationState.Terminated == nil {
			return v1.PodPending
		}
	}
	return v1.PodRunning
}

// sidecar says that an init container stays for the life of the pod.
func sidecar(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func ready(pod *v1.Pod, v *view, phase v1.PodPhase) (holds bool, reason, message string) {
	switch phase {
	case v1.PodSucceeded:
		return false, "PodCompleted", ""
	case v1.PodFailed:
		return false, "PodFailed", ""
	}
	unready := ""
	for i := range v.main {
		if !v.main[i].Ready {
			unready += " " + v.main[i].Name
		}
	}
	for i := range v.init {
		if sidecar(&pod.Spec.InitContainers[i]) && !v.init[i].Ready {
			unready += " " + v.init[i].Name
		}
	}
	if unready != "" || len(v.main) == 0 {
		return false, "ContainersNotReady", "containers with unready status:" + unready
	}
	return true, "", ""
}

// gates says that every readiness gate of the pod is true.
func gates(pod *v1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		found := condition(&pod.Status, gate.ConditionType)
		if found == nil || found.Status != v1.ConditionTrue {
			return false
		}
	}
	return true
}

func condition(status *v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

func setCondition(status *v1.PodStatus, generation int64, kind v1.PodConditionType, holds bool, reason, message string,
	now time.Time,
) {
	value := v1.ConditionFalse
	if holds {
		value = v1.ConditionTrue
	}
	found := condition(status, kind)
	if found == nil {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind})
		found = &status.Conditions[len(status.Conditions)-1]
	}
	if found.Status != value {
		found.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	}
	found.Status, found.Reason, found.Message, found.ObservedGeneration = value, reason, message, generation
}

// outcome is the phase of a pod whose containers will not run again.
func outcome(main []v1.ContainerStatus) v1.PodPhase {
	for i := range main {
		if main[i].State.Terminated == nil || main[i].State.Terminated.ExitCode != 0 {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}
