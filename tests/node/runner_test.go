package node

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// bench is a node without an API server: what its runners publish is looked at as it is.
func bench(t *testing.T) *Node {
	t.Helper()
	hollow, _ := newHollowPlaces("127.200.0.0/24", false)
	n := &Node{
		// A run longer than twice the limit begins the back-off anew. A start on a loaded machine must not be one.
		config:  config{name: "bench", backoff: 10 * time.Millisecond, backoffLimit: 5 * time.Second, firstProbe: 10 * time.Millisecond},
		address: "127.0.0.1", mark: newMark(), folder: t.TempDir(), context: t.Context(), launcher: newLauncher(),
		images: images{"shell": {}, "other": {}, "hollow": {Hollow: true}}, places: newPlaces(false), hollowPlaces: hollow,
		runners: map[types.UID]*runner{}, hollow: map[types.UID]netip.Addr{}, written: map[types.UID]uint64{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	return n
}

// try starts a pod whose containers are shell scripts and ends it with the test.
func (n *Node) try(t *testing.T, change func(*v1.Pod), scripts ...string) *runner {
	t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default", UID: types.UID(t.Name()), ResourceVersion: "1"},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways},
	}
	for i, script := range scripts {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: fmt.Sprint("c", i), Image: "shell", Command: []string{"sh", "-c", script},
		})
	}
	if change != nil {
		change(pod)
	}
	r := newRunner(n, "default/one", pod)
	n.lives.Go(r.live)
	t.Cleanup(func() {
		r.vanish()
		<-r.done
	})
	return r
}

// change gives the runner a newer version of its pod.
func (r *runner) change(how func(*v1.Pod)) {
	read := make(chan *v1.Pod)
	r.tell(func() { read <- r.pod })
	next := (<-read).DeepCopy()
	next.ResourceVersion += "1"
	how(next)
	r.update(next)
}

func (r *runner) until(t *testing.T, what string, holds func(*view) bool) *view {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if v := r.view(); holds(v) {
			return v
		}
	}
	t.Fatalf("%s: %+v", what, r.view())
	return nil
}

// wrote says that the first run of a container has written the word.
func (r *runner) wrote(container, word string) bool {
	text, _ := os.ReadFile(r.folder.log(container, 0))
	return strings.Contains(string(text), word)
}

func TestAContainerThatFailsIsRestartedAndCounted(t *testing.T) {
	r := bench(t).try(t, nil, "exit 7")
	v := r.until(t, "two restarts", func(v *view) bool { return v.main[0].RestartCount >= 2 })
	last := v.main[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 7 || last.Reason != "Error" {
		t.Fatalf("the run before ended with %+v", last)
	}
	r.until(t, "it waits", func(v *view) bool {
		return v.main[0].State.Waiting != nil && v.main[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
}

func TestThePolicyDecidesWhoComesAgain(t *testing.T) {
	n := bench(t)
	r := n.try(t, func(pod *v1.Pod) { pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure }, "test -e again || { touch again; exit 1; }")
	v := r.until(t, "it succeeds", func(v *view) bool { return v.over })
	if v.terminal != v1.PodSucceeded || v.main[0].RestartCount != 1 {
		t.Fatalf("%+v", v)
	}
	never := n.try(t, func(pod *v1.Pod) {
		pod.UID, pod.Spec.RestartPolicy = "never", v1.RestartPolicyNever
	}, "exit 0", "kill -TERM $$$$")
	v = never.until(t, "it fails", func(v *view) bool { return v.over })
	if second := v.main[1].State.Terminated; v.terminal != v1.PodFailed || second.ExitCode != 143 || second.Signal != 15 {
		t.Fatalf("%+v", v)
	}
}

func TestInitContainersRunOneAfterTheOtherBeforeTheRest(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	r := bench(t).try(t, func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{Name: "v"}}
		mount := []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		pod.Spec.InitContainers = []v1.Container{
			{Name: "first", Image: "shell", Command: []string{"sh", "-c", "sleep 0.1; echo first >>v/order"}, VolumeMounts: mount},
			{Name: "beside", Image: "shell", Command: []string{"sh", "-c", "echo beside >>v/order; sleep 100"}, VolumeMounts: mount, RestartPolicy: &always},
			{Name: "second", Image: "shell", Command: []string{"sh", "-c", "until grep -q beside v/order; do sleep 0.01; done; echo second >>v/order"}, VolumeMounts: mount},
		}
		pod.Spec.Containers[0].VolumeMounts = mount
	}, "echo main >>v/order; sleep 100")
	v := r.until(t, "it runs", func(v *view) bool { return v.initialized && v.main[0].State.Running != nil })
	if v.init[1].State.Running == nil || v.init[0].State.Terminated == nil || !v.init[0].Ready {
		t.Fatalf("%+v", v.init)
	}
	file := filepath.Join(r.folder.volume("v"), "order")
	r.until(t, "all have written", func(*view) bool {
		text, _ := os.ReadFile(file)
		return strings.Join(strings.Fields(string(text)), " ") == "first beside second main"
	})
}

func TestADeletionKillsAfterTheGraceAndTheAddressIsFree(t *testing.T) {
	r := bench(t).try(t, nil, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	r.until(t, "it is up", func(*view) bool { return r.wrote("c0", "up") })
	r.change(func(pod *v1.Pod) {
		now, grace := metav1.Now(), int64(1)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	})
	begin := time.Now()
	v := r.until(t, "it ends", func(v *view) bool { return v.over })
	if took := time.Since(begin); took < 900*time.Millisecond || v.main[0].State.Terminated.ExitCode != 137 || v.terminal != v1.PodFailed {
		t.Fatalf("after %v: %+v", took, v)
	}
	lock, err := hold(netip.MustParseAddr(v.ip))
	if err != nil {
		t.Fatalf("%s is not free: %v", v.ip, err)
	}
	_ = lock.Close()
}

func TestWhatLeftItsSessionDiesWithItsContainer(t *testing.T) {
	r := bench(t).try(t, nil, "setsid sh -c 'echo $$$$ >../../child; exec sleep 1000' & wait")
	var child string
	r.until(t, "the child runs", func(*view) bool {
		text, _ := os.ReadFile(filepath.Join(r.folder.root, "child"))
		child = strings.TrimSpace(string(text))
		_, err := os.Stat("/proc/" + child + "/stat")
		return child != "" && err == nil
	})
	r.vanish()
	<-r.done
	// A killed process may need a moment of a processor to be gone.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(text), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the child lives: %s", text)
		}
	}
	if _, err := os.Stat(r.folder.root); err == nil {
		t.Fatal("the pod's folder is still there")
	}
}

func TestANewImageRestartsItsContainerAlone(t *testing.T) {
	r := bench(t).try(t, nil, "sleep 1000", "sleep 1000")
	before := r.until(t, "both run", func(v *view) bool { return v.main[0].Ready && v.main[1].Ready })
	r.change(func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "other:2" })
	after := r.until(t, "the new image runs", func(v *view) bool { return v.main[0].Image == "other:2" && v.main[0].Ready })
	first := after.main[0]
	if first.RestartCount != 1 || first.ContainerID == before.main[0].ContainerID || after.main[1].RestartCount != 0 {
		t.Fatalf("%+v", after.main)
	}
}

func TestAnImageThatComesBackIsPulledAtOnce(t *testing.T) {
	n := bench(t)
	n.config.backoff, n.config.backoffLimit = time.Hour, time.Hour
	r := n.try(t, func(pod *v1.Pod) { pod.Annotations = map[string]string{cuePrefix + "image-pull": "fail"} }, "sleep 1000")
	r.until(t, "the pull fails", func(v *view) bool {
		return v.main[0].State.Waiting != nil && v.main[0].State.Waiting.Reason == "ErrImagePull"
	})
	r.change(func(pod *v1.Pod) { pod.Annotations = nil })
	r.until(t, "it runs", func(v *view) bool { return v.main[0].Ready })
}

func TestReadinessFollowsItsCueWithoutARestart(t *testing.T) {
	r := bench(t).try(t, nil, "sleep 1000")
	for range 3 {
		r.until(t, "it is ready", func(v *view) bool { return v.main[0].Ready })
		r.change(func(pod *v1.Pod) { pod.Annotations = map[string]string{cuePrefix + "ready": "false"} })
		r.until(t, "it is not ready", func(v *view) bool { return !v.main[0].Ready && v.main[0].State.Running != nil })
		r.change(func(pod *v1.Pod) { pod.Annotations = nil })
	}
	if v := r.view(); v.main[0].RestartCount != 0 {
		t.Fatalf("%+v", v.main)
	}
}

// The probe itself takes away what makes it fail, so it fails once, however late the container's script runs. Its time
// is long: on a loaded machine a process may take seconds to start.
func TestALivenessProbeThatFailsRestartsTheContainer(t *testing.T) {
	r := bench(t).try(t, func(pod *v1.Pod) {
		command := []string{"sh", "-c", "if test -e sick; then rm sick; exit 1; fi"}
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}, PeriodSeconds: 1, TimeoutSeconds: 60, FailureThreshold: 1,
		}
	}, "echo up; exec sleep 1000")
	r.until(t, "it is up", func(*view) bool { return r.wrote("c0", "up") })
	if err := os.WriteFile(filepath.Join(r.folder.container("c0"), "sick"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v := r.until(t, "it is restarted", func(v *view) bool { return v.main[0].RestartCount == 1 && v.main[0].Ready })
	if last := v.main[0].LastTerminationState.Terminated; last.ExitCode != 143 {
		t.Fatalf("%+v", last)
	}
}

func TestAPodOfAnEarlierLifeIsRestartedAndCounted(t *testing.T) {
	r := bench(t).try(t, func(pod *v1.Pod) {
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "c0", ContainerID: "process://before", Image: "shell", RestartCount: 4, State: running,
		}}
	}, "sleep 1000")
	v := r.until(t, "it runs", func(v *view) bool { return v.main[0].Ready })
	if last := v.main[0].LastTerminationState.Terminated; v.main[0].RestartCount != 5 || last.Reason != "ContainerStatusUnknown" {
		t.Fatalf("%+v", v.main)
	}
}
