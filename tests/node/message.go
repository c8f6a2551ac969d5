package node

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// The most that a container can say at its end, by its file and by its log.
const (
	messageLimit  = 4096
	messageOfLog  = 2048
	linesOfLog    = 80
	messageByRule = "/dev/termination-log"
)

func (l layout) message(name string) string { return filepath.Join(l.root, "messages", name) }

// letSpeak puts the file of a container's last words where the container looks for it: below its working folder, as
// everything of it.
func (l layout) letSpeak(container *v1.Container) error {
	target := l.message(container.Name)
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	path := container.TerminationMessagePath
	if path == "" {
		path = messageByRule
	}
	at := filepath.Join(l.container(container.Name), filepath.Join("/", path))
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	return os.Symlink(target, at)
}

// clearMessage begins a run without the words of the one before.
func (r *runner) clearMessage(s *slot) {
	target := r.folder.message(s.spec.Name)
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err == nil {
		_ = os.WriteFile(target, nil, 0o666)
	}
}

// lastWords is what a container that has ended left behind, or the end of its log where the pod wants that.
func (r *runner) lastWords(s *slot) string {
	file, err := os.Open(r.folder.message(s.spec.Name))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	said, _ := io.ReadAll(io.LimitReader(file, messageLimit))
	if len(said) == 0 && s.ended.ExitCode != 0 && s.spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError {
		said, _ = os.ReadFile(r.folder.log(s.spec.Name, s.restarts))
		said = said[max(0, len(said)-messageOfLog):]
		lines := bytes.SplitAfter(bytes.TrimSuffix(said, []byte("\n")), []byte("\n"))
		said = bytes.Join(lines[max(0, len(lines)-linesOfLog):], nil)
	}
	return string(said)
}
