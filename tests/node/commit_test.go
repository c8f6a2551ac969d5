package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTheLastWordsOfAContainerAreTheMessageOfItsEnd(t *testing.T) {
	r := bench(t).try(t, nil, "echo one >dev/termination-log; exit 1")
	v := r.until(t, "it came again", func(v *view) bool {
		return v.main[0].RestartCount >= 1 && v.main[0].LastTerminationState.Terminated != nil
	})
	if last := v.main[0].LastTerminationState.Terminated; last.Message != "one\n" {
		t.Fatalf("%+v", last)
	}
	n := bench(t)
	never := func(change func(*v1.Pod)) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			change(pod)
		}
	}
	named := n.try(t, never(func(pod *v1.Pod) {
		pod.UID, pod.Spec.Containers[0].TerminationMessagePath = "named", "/said/here"
	}), `test said/here -ef "$TERMINATION_MESSAGE" && echo two >"$TERMINATION_MESSAGE"`)
	v = named.until(t, "it ended", func(v *view) bool { return v.over })
	if end := v.main[0].State.Terminated; end.Message != "two\n" || end.ExitCode != 0 {
		t.Fatalf("%+v", end)
	}
	logged := n.try(t, never(func(pod *v1.Pod) {
		pod.UID = "logged"
		pod.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	}), "seq 1000; exit 3")
	v = logged.until(t, "it ended", func(v *view) bool { return v.over })
	if end := v.main[0].State.Terminated; !strings.HasPrefix(end.Message, "921\n") || !strings.HasSuffix(end.Message, "\n1000") {
		t.Fatalf("%+v", end)
	}
	long := n.try(t, never(func(pod *v1.Pod) { pod.UID = "long" }), "seq 10000 >dev/termination-log")
	v = long.until(t, "it ended", func(v *view) bool { return v.over })
	if end := v.main[0].State.Terminated; len(end.Message) != 4096 {
		t.Fatalf("%d bytes", len(end.Message))
	}
}

// commit runs the committer in a pod of its own.
func (n *Node) tryCommit(t *testing.T, uid string, args ...string) *v1.ContainerStateTerminated {
	t.Helper()
	n.images["image-committer"] = image{Commits: true}
	r := n.try(t, func(pod *v1.Pod) {
		pod.UID = types.UID("commit-" + uid)
		pod.Name, pod.Spec.RestartPolicy = uid, v1.RestartPolicyNever
		pod.Spec.Containers = []v1.Container{{
			Name: "commit", Image: "image-committer:dev", Command: []string{"/usr/local/bin/image-committer"}, Args: args,
		}}
	})
	v := r.until(t, "it ended", func(v *view) bool { return v.over })
	return v.main[0].State.Terminated
}

func TestACommittedContainerComesBackWithItsFiles(t *testing.T) {
	n := bench(t)
	source := n.try(t, func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{Name: "v"}}
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/mounted"}}
		n.know(t, pod)
	}, "mkdir -p home; echo mark >home/marker; echo no >mounted/file; echo done; exec sleep 1000")
	source.until(t, "it wrote", func(*view) bool { return source.wrote("c0", "done") })
	target := "registry.test/one-c0:snap-gen1"
	end := n.tryCommit(t, "commit", "one", "default", "c0:"+target)
	var said struct {
		Containers []committed `json:"containers"`
	}
	if err := json.Unmarshal([]byte(end.Message), &said); err != nil || end.ExitCode != 0 || len(said.Containers) != 1 {
		t.Fatalf("%+v", end)
	}
	one := said.Containers[0]
	if one.Name != "c0" || one.Image != target || !strings.HasPrefix(one.Digest, "sha256:") {
		t.Fatalf("%+v", one)
	}
	again := n.try(t, func(pod *v1.Pod) {
		pod.UID, pod.Name, pod.Spec.Containers[0].Image = "again", "again", target
	}, "cat home/marker; ls mounted; exec sleep 1000")
	again.until(t, "the marker is there", func(*view) bool { return again.wrote("c0", "mark\n") })
	if _, err := os.Stat(filepath.Join(again.folder.container("c0"), "mounted")); err == nil {
		t.Fatal("what was mounted is in the image")
	}

	// Another container is kept under the same name. The digest says which is meant.
	other := n.try(t, func(pod *v1.Pod) {
		pod.UID, pod.Name = "two", "two"
		n.know(t, pod)
	}, "mkdir -p home; echo other >home/marker; echo done; exec sleep 1000")
	other.until(t, "it wrote", func(*view) bool { return other.wrote("c0", "done") })
	if end := n.tryCommit(t, "overwrite", "two", "default", "c0:"+target); end.ExitCode != 0 || strings.Contains(end.Message, one.Digest) {
		t.Fatalf("%+v", end)
	}
	for name, mark := range map[string]string{target: "other\n", "registry.test/one-c0@" + one.Digest: "mark\n"} {
		back := n.try(t, func(pod *v1.Pod) {
			pod.UID, pod.Name, pod.Spec.Containers[0].Image = types.UID("back-"+mark[:4]), "back", name
		}, "cat home/marker; exec sleep 1000")
		back.until(t, "its marker is there", func(*view) bool { return back.wrote("c0", mark) })
	}
}

func TestACommitFailsForABadRegistryAMissingPodAndOnCue(t *testing.T) {
	n := bench(t)
	source := n.try(t, func(pod *v1.Pod) {
		pod.Annotations = map[string]string{cuePrefix + "commit": "ok"}
		n.know(t, pod)
	}, "exec sleep 1000")
	for _, args := range [][]string{
		{"one", "default", "c0:registry.invalid/one-c0:snap-gen1"},
		{"one", "default", "c0:registry.invalid:5000/one-c0:snap-gen1"},
		{"one", "default", "c7:registry.test/one-c7:snap-gen1"},
		{"two", "default", "c0:registry.test/two-c0:snap-gen1"},
		{"one", "default"},
		{"unpause", "one"},
	} {
		if end := n.tryCommit(t, "bad", args...); end.ExitCode != 1 || end.Message == "" {
			t.Fatalf("%q: %+v", args, end)
		}
	}
	if end := n.tryCommit(t, "unpause", "unpause", "one", "default", "c0"); end.ExitCode != 0 {
		t.Fatalf("%+v", end)
	}
	source.change(func(pod *v1.Pod) {
		pod.Annotations = map[string]string{cuePrefix + "commit": "fail"}
		n.know(t, pod)
	})
	if end := n.tryCommit(t, "cue", "one", "default", "c0:registry.test/one-c0:snap-gen1"); end.ExitCode != 1 {
		t.Fatalf("%+v", end)
	}
}
