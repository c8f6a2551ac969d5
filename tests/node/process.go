package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Every process of a container carries this variable: NODE-RUN/POD-UID/CONTAINER. What a container started and put
// into a session of its own is found by it.
const markVariable = "SANDGATE_RUN"

// ending is how a run of a container ended.
type ending struct {
	code   int32
	signal int32
}

// process is a run of a container. Both orders return at once; the end is told by a callback.
type process interface {
	term()
	kill()
}

// launcher starts processes from one thread that lives as long as the program. Linux sends the death signal of a child
// when the thread that started it ends, and Go's threads come and go.
type launcher struct {
	orders chan func()
}

func newLauncher() *launcher {
	l := &launcher{orders: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for order := range l.orders {
			order()
		}
	}()
	return l
}

// start runs a command in a session of its own that the kernel kills with the node.
func (l *launcher) start(command *exec.Cmd) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setsid = true
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error, 1)
	l.orders <- func() { result <- command.Start() }
	return <-result
}

// program is the command for a container's words. A bare name is looked up in the node's PATH; a path is relative to
// the container's working folder. What would signal this machine's process 1 is refused.
func program(words []string, folder string, environment []string) (*exec.Cmd, error) {
	if what, _ := aimOf(words); what != aimsElsewhere {
		return nil, fmt.Errorf("%q would signal a process of this machine", words)
	}
	path := words[0]
	if filepath.Base(path) == path {
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, err
		}
		if path, err = filepath.Abs(found); err != nil {
			return nil, err
		}
	}
	return &exec.Cmd{Path: path, Args: words, Dir: folder, Env: environment}, nil
}

// group is a real process and everything it started.
type group struct {
	mutex sync.Mutex
	pid   int
	over  bool
	mark  string
}

// startGroup runs the command and calls `ended` once, when it and all that it started are gone.
func (l *launcher) startGroup(command *exec.Cmd, mark string, ended func(ending)) (*group, error) {
	if err := l.start(command); err != nil {
		return nil, err
	}
	g := &group{pid: command.Process.Pid, mark: mark}
	go func() {
		// The process stays a zombie meanwhile, so its number and its group's cannot be given to another.
		for unix.Waitid(unix.P_PID, g.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		g.signal(unix.SIGKILL)
		sweep(g.mark)
		g.mutex.Lock()
		g.over = true
		g.mutex.Unlock()
		_ = command.Wait()
		ended(endingOf(command.ProcessState))
	}()
	return g, nil
}

func (g *group) term() { g.signal(unix.SIGTERM) }
func (g *group) kill() { g.signal(unix.SIGKILL) }

func (g *group) signal(signal unix.Signal) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if !g.over {
		_ = unix.Kill(-g.pid, signal)
	}
}

// endingOf is the exit code as container runtimes report it: 128 and the signal for a process that was killed.
func endingOf(state *os.ProcessState) ending {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return ending{code: 1}
	}
	if status.Signaled() {
		return ending{code: 128 + int32(status.Signal()), signal: int32(status.Signal())}
	}
	return ending{code: int32(status.ExitStatus())}
}

// sweep kills every process that carries the mark, until it finds none.
func sweep(mark string) {
	needle := []byte(markVariable + "=" + mark)
	for range 100 {
		found := false
		entries, _ := os.ReadDir("/proc")
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			environment, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
			if err != nil || !marked(environment, needle) {
				continue
			}
			found = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if !found {
			return
		}
	}
}

func marked(environment, needle []byte) bool {
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if bytes.HasPrefix(variable, needle) {
			return true
		}
	}
	return false
}

// nothing is the process of a hollow container: it runs until it is told to stop.
type nothing struct {
	once  sync.Once
	ended func(ending)
}

func (n *nothing) term() { n.end(ending{code: 0}) }
func (n *nothing) kill() { n.end(ending{code: 137, signal: int32(unix.SIGKILL)}) }

func (n *nothing) end(how ending) {
	n.once.Do(func() { go n.ended(how) })
}
