package node

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

func TestWhateverAimsAtProcessOneIsKnown(t *testing.T) {
	for _, words := range [][]string{
		{"kill", "1"},
		{"/bin/kill", "1"},
		{"/usr/bin/kill", "1"},
		{"kill", "-TERM", "1"},
		{"kill", "-SIGTERM", "1"},
		{"kill", "-15", "1"},
		{"kill", "-s", "TERM", "1"},
		{"kill", "-n", "15", "1"},
		{"kill", "--signal", "TERM", "1"},
		{"kill", "--signal=term", "1"},
		{"kill", "--", "1"},
		{"kill", "-1", "1"},
		{"kill", "77", "1"},
		{"kill", "01"},
		{"busybox", "kill", "1"},
		{"env", "-i", "A=b", "kill", "1"},
		{"sh", "-c", "kill 1"},
		{"/bin/sh", "-ec", "kill -TERM 1"},
		{"bash", "-l", "-c", "echo bye; kill -s TERM 1 || true"},
		{"sh", "-c", "if true; then exec kill 1; fi"},
		{"sh", "-c", "sh -c 'kill 1'"},
		{"sh", "-c", "A=b kill 1"},
		{"setsid", "sh", "-c", "sleep 1 && /bin/kill 1"},
	} {
		if what, signal := aimOf(words); what != endsFirst || signal != unix.SIGTERM {
			t.Errorf("%q: %v %v", words, what, signal)
		}
	}
	for _, words := range [][]string{{"kill", "-9", "1"}, {"kill", "-KILL", "1"}, {"sh", "-c", "kill -s KILL 1"}} {
		if what, signal := aimOf(words); what != endsFirst || signal != unix.SIGKILL {
			t.Errorf("%q: %v %v", words, what, signal)
		}
	}
	for _, words := range [][]string{
		{"kill", "-9", "-1"},
		{"kill", "--", "-1"},
		{"kill", "-1"},
		{"kill", "-STOP", "1"},
		{"pkill", "-f", "sandgate"},
		{"killall", "sh"},
		{"reboot"},
		{"sh", "-c", "true; kill -9 -1"},
		{"sh", "-c", "pkill sleep"},
	} {
		if what, _ := aimOf(words); what != endangers {
			t.Errorf("%q: %v", words, what)
		}
	}
	for _, words := range [][]string{
		nil,
		{"echo", "kill", "1"},
		{"kill", "-TERM", "4711"},
		{"kill", "-l"},
		{"sh", "-c", "kill -TERM $$"},
		{"sh", "-c", "kill 11; exit 1"},
		{"sh", "-c", "trap 'exit 0' TERM; sleep 1"},
		{"test", "-e", "1"},
		{"sleep", "1"},
	} {
		if what, _ := aimOf(words); what != aimsElsewhere {
			t.Errorf("%q: %v", words, what)
		}
	}
}

func TestNothingThatAimsAtProcessOneIsEverStarted(t *testing.T) {
	for _, words := range [][]string{{"kill", "1"}, {"sh", "-c", "kill 1"}, {"kill", "-9", "-1"}, {"pkill", "x"}} {
		if command, err := program(words, t.TempDir(), nil); err == nil {
			t.Errorf("%q: %v", words, command)
		}
	}
}

// know puts a pod into the view that the node has of the cluster.
func (n *Node) know(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if n.pods == nil {
		n.pods = cache.NewSharedInformer(&cache.ListWatch{}, &v1.Pod{}, 0)
	}
	if err := n.pods.GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
}

func (r *runner) exec(words ...string) error {
	return (&executor{r.node, r}).ExecInContainer(r.node.context, "", "", "c0", words, nil, nil, nil, false,
		make(chan remotecommand.TerminalSize), 0)
}

func TestAKillOfProcessOneEndsTheContainerAndNothingElse(t *testing.T) {
	r := bench(t).try(t, nil, "echo up; exec sleep 1000", "exec sleep 1000")
	before := r.until(t, "both run", func(v *view) bool { return v.main[0].Ready && v.main[1].Ready })
	for i, words := range [][]string{{"kill", "1"}, {"sh", "-c", "kill -9 1"}, {"/bin/kill", "-s", "TERM", "1"}} {
		was := r.view().main[0].ContainerID
		if err := r.exec(words...); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		v := r.until(t, "it runs again", func(v *view) bool {
			return v.main[0].RestartCount == int32(i+1) && v.main[0].Ready
		})
		code := v.main[0].LastTerminationState.Terminated.ExitCode
		if v.main[0].ContainerID == was || code != 143 && code != 137 {
			t.Fatalf("%q: %+v", words, v.main[0])
		}
	}
	if after := r.view(); after.main[1].ContainerID != before.main[1].ContainerID {
		t.Fatalf("the other one: %+v", after.main[1])
	}
	if err := r.exec("kill", "-9", "-1"); err == nil {
		t.Fatal("every process was signalled")
	}
}

func TestAContainerThatHearsNoSignalIsNotEndedByIt(t *testing.T) {
	r := bench(t).try(t, nil, "trap 'echo heard' TERM; echo up; while :; do sleep 0.02; done")
	r.until(t, "it is up", func(v *view) bool { return v.main[0].State.Running != nil && r.wrote("c0", "up") })
	if err := r.exec("kill", "1"); err != nil {
		t.Fatal(err)
	}
	r.until(t, "it heard", func(*view) bool { return r.wrote("c0", "heard") })
	if v := r.view(); v.main[0].RestartCount != 0 || v.main[0].State.Running == nil {
		t.Fatalf("%+v", v.main[0])
	}
}

func TestAPodThatIsNotRestartedFailsByAKillOfProcessOne(t *testing.T) {
	r := bench(t).try(t, func(pod *v1.Pod) { pod.Spec.RestartPolicy = v1.RestartPolicyNever }, "exec sleep 1000")
	r.until(t, "it runs", func(v *view) bool { return v.main[0].Ready })
	if err := r.exec("kill", "1"); err != nil {
		t.Fatal(err)
	}
	if v := r.until(t, "it is over", func(v *view) bool { return v.over }); v.terminal != v1.PodFailed {
		t.Fatalf("%+v", v)
	}
}

func TestAHollowPodIsRestartedToo(t *testing.T) {
	n := bench(t)
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "c0", Image: "hollow"}},
	}}
	pod.Name, pod.Namespace, pod.UID, pod.ResourceVersion = "quick", "default", "quick", "1"
	n.know(t, pod)
	if _, err := n.findOrBegin("default", "quick"); err == nil {
		t.Fatal("it does not run yet")
	}
	ip, err := n.hollowAddress(pod)
	if err != nil {
		t.Fatal(err)
	}
	ready := pod.DeepCopy()
	ready.ResourceVersion = "2"
	ready.Status = podStatus(pod, hollowView(pod, ip.String(), n.address, time.Now()), time.Now())
	n.know(t, ready)
	r, err := n.findOrBegin("default", "quick")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.vanish()
		<-r.done
	})
	if again, _ := n.findOrBegin("default", "quick"); again != r {
		t.Fatal("it has two runners")
	}
	before := r.view().main[0]
	if err := r.exec("kill", "1"); err != nil {
		t.Fatal(err)
	}
	v := r.until(t, "it runs again", func(v *view) bool { return v.main[0].RestartCount == 1 && v.main[0].Ready })
	if v.main[0].ContainerID == before.ContainerID || v.ip != ip.String() {
		t.Fatalf("%+v, before %+v", v, before)
	}
	if err := r.exec("true"); err == nil {
		t.Fatal("a hollow container ran a command")
	}
}
