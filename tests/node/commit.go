package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// The node plays OpenSandbox's image-committer. Its arguments are
//
//	POD NAMESPACE CONTAINER:IMAGE…           makes an image of each container
//	unpause POD NAMESPACE CONTAINER…         lets containers go on, of which none was stopped here
//
// What it made stands in its termination message: {"containers":[{"name":…,"image":…,"digest":…}]}. A registry whose
// host ends in .invalid cannot be reached: then, and for a pod or container that is not there, it ends with code 1.

// file is a file of an image that was made of a container.
type file struct {
	mode fs.FileMode
	text []byte
}

type committed struct {
	Name   string `json:"name"`
	Image  string `json:"image"`
	Digest string `json:"digest"`
}

// image finds what stands behind a name: an image that was made here, or one of the table.
func (n *Node) image(name string) (image, bool) {
	n.mutex.Lock()
	made, ok := n.made[name]
	n.mutex.Unlock()
	if ok {
		return made, true
	}
	return n.images.find(name)
}

// play runs a container of the committer: a process of the node itself.
func (r *runner) play(s *slot, base image, now time.Time) {
	words := base.arguments(s.spec.Command, s.spec.Args)
	r.attach(s, now)
	current := s.run
	target := r.folder.message(s.spec.Name)
	r.clearMessage(s)
	go func() {
		code := int32(0)
		said, err := r.node.commit(words)
		if err != nil {
			code, said = 1, []byte(err.Error())
		}
		_ = os.WriteFile(r.folder.log(s.spec.Name, 0), append(said, '\n'), 0o644)
		_ = os.WriteFile(target, said, 0o666)
		r.ended(s, current, ending{code: code})
	}()
}

// commit does what the committer's words say and gives its last words.
func (n *Node) commit(words []string) ([]byte, error) {
	if len(words) > 0 && strings.HasPrefix(words[0], "/") {
		words = words[1:]
	}
	if len(words) > 0 && words[0] == "unpause" {
		if len(words) < 4 {
			return nil, fmt.Errorf("usage: image-committer unpause POD NAMESPACE CONTAINER…, not %q", words)
		}
		return nil, nil
	}
	if len(words) < 3 {
		return nil, fmt.Errorf("usage: image-committer POD NAMESPACE CONTAINER:IMAGE…, not %q", words)
	}
	object, present, err := n.pods.GetStore().GetByKey(words[1] + "/" + words[0])
	if err != nil || !present {
		return nil, fmt.Errorf("pod %s/%s is not on this node", words[1], words[0])
	}
	pod := object.(*v1.Pod)
	asked, err := cuesOf(pod.Annotations)
	if err != nil {
		return nil, err
	}
	if asked.commitFails {
		return nil, fmt.Errorf("the pod %s cannot be committed, on cue", pod.Name)
	}
	select {
	case <-time.After(asked.commitDelay):
	case <-n.context.Done():
		return nil, n.context.Err()
	}
	var done struct {
		Containers []committed `json:"containers"`
	}
	for _, word := range words[2:] {
		container, target, _ := strings.Cut(word, ":")
		digest, err := n.commitOne(pod, container, target)
		if err != nil {
			return nil, err
		}
		done.Containers = append(done.Containers, committed{container, target, digest})
	}
	return json.Marshal(done)
}

// commitOne makes an image of a container and gives its digest. The image is found by its name, until another is made
// of that name, and by its digest for good.
func (n *Node) commitOne(pod *v1.Pod, container, target string) (string, error) {
	registry, _, found := strings.Cut(target, "/")
	if !found {
		return "", fmt.Errorf("%q names no registry", target)
	}
	if host, _, _ := strings.Cut(registry, ":"); strings.HasSuffix(host, ".invalid") {
		return "", fmt.Errorf("push %s: no such host: %s", target, host)
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		if spec.Name != container {
			continue
		}
		base, known := n.image(spec.Image)
		if !known {
			return "", fmt.Errorf("the image %s of the container %s is unknown", spec.Image, container)
		}
		files, err := pack(layout{filepath.Join(n.folder, string(pod.UID))}.container(container))
		if err != nil {
			return "", err
		}
		base.files = files
		digest := base.digest(spec.Image)
		n.mutex.Lock()
		defer n.mutex.Unlock()
		if n.made == nil {
			n.made = images{}
		}
		n.made[target] = base
		n.made[repository(target)+"@"+digest] = base
		return digest, nil
	}
	return "", fmt.Errorf("the pod %s has no container %q", pod.Name, container)
}

// digest names the content of an image that was made of a container of the image `from`.
func (i image) digest(from string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", from)
	names := make([]string, 0, len(i.files))
	for name := range i.files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(sum, "%q %o %q\n", name, i.files[name].mode, i.files[name].text)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// pack reads the files of a container. Links are mounts, which are no part of an image.
func pack(folder string) (map[string]file, error) {
	files := map[string]file{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			// A hollow container has no folder, and a file may go while it is looked for.
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		files[name] = file{0o644, text}
		if info, err := entry.Info(); err == nil {
			files[name] = file{info.Mode().Perm(), text}
		}
		return err
	})
	return files, err
}

// unpack brings the files of an image into the folder of a container.
func (i image) unpack(folder string) error {
	for name, file := range i.files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.text, file.mode); err != nil {
			return err
		}
	}
	return nil
}
