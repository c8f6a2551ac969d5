package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// A client that says nothing for so long is gone.
const execIdle = 4 * time.Hour

// serveExec answers `kubectl exec`. The API server brings the streams over SPDY.
func (n *Node) serveExec(w http.ResponseWriter, request *http.Request) {
	options, err := remotecommand.NewOptions(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found, err := n.findOrBegin(request.PathValue("namespace"), request.PathValue("pod"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	remotecommand.ServeExec(w, request, &executor{n, found}, request.PathValue("pod"), request.PathValue("uid"),
		request.PathValue("container"), request.URL.Query()["command"], options, execIdle,
		remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// executor runs commands beside a pod's containers.
type executor struct {
	node   *Node
	runner *runner
}

// ExecInContainer runs a command with the streams of a client.
func (e *executor) ExecInContainer(ctx context.Context, _, _, container string, words []string, in io.Reader,
	out, errors io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if what, signal := aimOf(words); what == endsFirst {
		if door, err := e.runner.enter(container); err != nil {
			return err
		} else if !door.running {
			return fmt.Errorf("the container %q does not run", container)
		}
		e.runner.endFirst(container, signal)
		return nil
	}
	command, err := e.node.beside(e.runner, container, words)
	if err != nil {
		return err
	}
	if tty {
		return e.node.onTerminal(ctx, command, in, out, resize)
	}
	command.Stdout, command.Stderr = stream(out), stream(errors)
	return e.node.await(ctx, command, in)
}

// stream keeps a missing stream from becoming an interface with nothing in it.
func stream(writer io.WriteCloser) io.Writer {
	if writer == nil {
		return nil
	}
	return writer
}

// beside is a command in the folder of a container and with its variables.
func (n *Node) beside(r *runner, container string, words []string) (*exec.Cmd, error) {
	door, err := r.enter(container)
	switch {
	case err != nil:
		return nil, err
	case door.hollow:
		return nil, fmt.Errorf("the container %q is hollow", container)
	case !door.running:
		return nil, fmt.Errorf("the container %q does not run", container)
	case len(words) == 0:
		return nil, errors.New("no command")
	}
	return program(words, door.folder, door.environment)
}

// inside runs a command of a probe.
func (n *Node) inside(ctx context.Context, r *runner, container string, words []string) error {
	command, err := n.beside(r, container, words)
	if err != nil {
		return err
	}
	return n.await(ctx, command, nil)
}

// await runs a command to its end, or to the context's. Input is copied beside it: a command that ends without having
// read all of it is not held up.
func (n *Node) await(ctx context.Context, command *exec.Cmd, in io.Reader) error {
	// What a command left running keeps its output open; that much later it is cut off.
	command.WaitDelay = time.Second
	var input *os.File
	if in != nil {
		reader, writer, err := os.Pipe()
		if err != nil {
			return err
		}
		command.Stdin, input = reader, writer
		defer func() { _ = reader.Close() }()
	}
	if err := n.launcher.start(command); err != nil {
		if input != nil {
			_ = input.Close()
		}
		return utilexec.CodeExitError{Err: err, Code: 126}
	}
	if input != nil {
		go func() {
			_, _ = io.Copy(input, in)
			_ = input.Close()
		}()
	}
	return n.reap(ctx, command)
}

// reap waits for a command and kills it when the context ends.
func (n *Node) reap(ctx context.Context, command *exec.Cmd) error {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-ctx.Done():
			(&group{pid: command.Process.Pid}).kill()
		case <-over:
		}
	}()
	err := command.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		how := endingOf(ended.ProcessState)
		return utilexec.CodeExitError{Err: err, Code: int(how.code)}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
