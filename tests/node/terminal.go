package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// onTerminal runs a command on a terminal of its own, as `kubectl exec -t` wants it.
func (n *Node) onTerminal(ctx context.Context, command *exec.Cmd, in io.Reader, out io.Writer,
	resize <-chan remotecommand.TerminalSize,
) error {
	ours, theirs, err := openTerminal()
	if err != nil {
		return err
	}
	defer func() { _ = ours.Close() }()
	command.Stdin, command.Stdout, command.Stderr = theirs, theirs, theirs
	command.SysProcAttr = &syscall.SysProcAttr{Setctty: true, Ctty: 0}
	command.Env = append(command.Env, "TERM=xterm")
	err = n.launcher.start(command)
	_ = theirs.Close()
	if err != nil {
		return err
	}
	go func() {
		for size := range resize {
			_ = unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(ours, in) }()
	}
	copied := make(chan struct{})
	go func() {
		// Ends with an error once nobody has the other side open.
		_, _ = io.Copy(out, ours)
		close(copied)
	}()
	err = n.reap(ctx, command)
	select {
	case <-copied:
	case <-ctx.Done():
	}
	return err
}

func openTerminal() (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}
