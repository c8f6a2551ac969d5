package node

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	running   = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	creating  = v1.ContainerState{Waiting: waitingFor("ContainerCreating", "")}
	looping   = v1.ContainerState{Waiting: waitingFor("CrashLoopBackOff", "")}
	succeeded = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 0}}
	failed    = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3}}
)

func containers(states ...v1.ContainerState) []v1.ContainerStatus {
	var all []v1.ContainerStatus
	for i, state := range states {
		status := v1.ContainerStatus{Name: string(rune('a' + i)), State: state, Ready: state.Running != nil}
		if state.Waiting != nil && state.Waiting.Reason == "CrashLoopBackOff" {
			status.LastTerminationState = failed
		}
		all = append(all, status)
	}
	return all
}

func up(states ...v1.ContainerState) *view {
	return &view{
		ip: "127.1.2.3", hostIP: "127.9.9.9", startTime: time.Unix(50, 0), prepared: true, initialized: true,
		main: containers(states...),
	}
}

func aPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "u", Generation: 4},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "a"}, {Name: "b"}}},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(10, 0),
		}}},
	}
}

func TestThePhaseFollowsTheContainers(t *testing.T) {
	uninitialized := up(running)
	uninitialized.initialized = false
	ended := up(succeeded)
	ended.terminal = v1.PodSucceeded
	for name, c := range map[string]struct {
		view *view
		want v1.PodPhase
	}{
		"nothing started":               {up(creating, creating), v1.PodPending},
		"one of two started":            {up(running, creating), v1.PodPending},
		"both run":                      {up(running, running), v1.PodRunning},
		"one waits for its restart":     {up(running, looping), v1.PodRunning},
		"all wait for their restart":    {up(looping, looping), v1.PodRunning},
		"one ended and will come again": {up(running, failed), v1.PodRunning},
		"init containers are not done":  {uninitialized, v1.PodPending},
		"nothing will run again":        {ended, v1.PodSucceeded},
	} {
		if got := podStatus(aPod(), c.view, time.Unix(100, 0)).Phase; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTheOutcomeIsSuccessOnlyIfAllEndedWell(t *testing.T) {
	for _, c := range []struct {
		states []v1.ContainerState
		want   v1.PodPhase
	}{
		{[]v1.ContainerState{succeeded, succeeded}, v1.PodSucceeded},
		{[]v1.ContainerState{succeeded, failed}, v1.PodFailed},
		{[]v1.ContainerState{succeeded, creating}, v1.PodFailed},
	} {
		if got := outcome(containers(c.states...)); got != c.want {
			t.Errorf("%v: %s, want %s", c.states, got, c.want)
		}
	}
}

func TestConditionsOfOthersAreKeptAndTransitionTimesMoveWithTheStatus(t *testing.T) {
	pod := aPod()
	pod.Status = podStatus(pod, up(running, creating), time.Unix(100, 0))
	if scheduled := condition(&pod.Status, v1.PodScheduled); scheduled == nil || scheduled.LastTransitionTime.Unix() != 10 {
		t.Fatalf("the scheduler's condition is now %v", scheduled)
	}
	notReady := condition(&pod.Status, v1.PodReady)
	if notReady.Status != v1.ConditionFalse || notReady.Reason != "ContainersNotReady" || !strings.Contains(notReady.Message, " b") {
		t.Fatalf("not ready because of b: %v", notReady)
	}
	pod.Status = podStatus(pod, up(running, running), time.Unix(200, 0))
	ready, initialized := condition(&pod.Status, v1.PodReady), condition(&pod.Status, v1.PodInitialized)
	if ready.Status != v1.ConditionTrue || ready.LastTransitionTime.Unix() != 200 || ready.Reason != "" {
		t.Fatalf("ready at 200: %v", ready)
	}
	if initialized.LastTransitionTime.Unix() != 100 || ready.ObservedGeneration != 4 {
		t.Fatalf("initialized at 100: %v", initialized)
	}
	again := podStatus(pod, up(running, running), time.Unix(300, 0))
	if body, err := difference(pod, again); err != nil || body != nil {
		t.Fatalf("nothing changed, but %s, %v", body, err)
	}
}

func TestAReadinessGateHoldsReadinessBack(t *testing.T) {
	pod := aPod()
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
	status := podStatus(pod, up(running, running), time.Unix(100, 0))
	if condition(&status, v1.ContainersReady).Status != v1.ConditionTrue || condition(&status, v1.PodReady).Status != v1.ConditionFalse {
		t.Fatalf("%v", status.Conditions)
	}
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: "gate", Status: v1.ConditionTrue})
	status = podStatus(pod, up(running, running), time.Unix(100, 0))
	if condition(&status, v1.PodReady).Status != v1.ConditionTrue {
		t.Fatalf("%v", status.Conditions)
	}
}

func TestAFinalPhaseStays(t *testing.T) {
	pod := aPod()
	pod.Status.Phase, pod.Status.Reason = v1.PodFailed, "Evicted"
	status := podStatus(pod, up(running, running), time.Unix(100, 0))
	if status.Phase != v1.PodFailed || status.Reason != "Evicted" || condition(&status, v1.PodReady).Status != v1.ConditionFalse {
		t.Fatalf("%s %s", status.Phase, status.Reason)
	}
}

func TestAPatchReplacesTheAddressAndNamesThePod(t *testing.T) {
	pod := aPod()
	pod.Status = podStatus(pod, up(running, running), time.Unix(100, 0))
	moved := up(running, running)
	moved.ip = "127.4.5.6"
	body, err := difference(pod, podStatus(pod, moved, time.Unix(200, 0)))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"uid":"u"`, `"podIP":"127.4.5.6"`, `{"$patch":"delete","ip":"127.1.2.3"}`} {
		if !strings.Contains(string(body), part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	if strings.Contains(string(body), "containerStatuses") {
		t.Errorf("the containers did not change: %s", body)
	}
}
