package node

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// The warden is a small shell that outlives the node by a moment. Its input ends with the node, however the node
// ends; then it kills whatever carries the node's mark and removes the node's folder. The kernel kills the containers'
// first processes by itself; the warden is for what those started.
const wardenScript = `
trap '' INT TERM HUP
while read -r _; do :; done
while :; do
  found=
  for file in $(grep -lsz "^$1=$2/" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    kill -9 "${pid%/environ}" 2>/dev/null && found=yes
  done
  [ "$found" ] || break
done
rm -rf -- "$3"
`

// post starts the warden. Closing what it gives dismisses the warden, which then does its work; `wait` returns when it
// is done.
func post(mark, folder string) (dismiss io.Closer, wait func() error, err error) {
	command := exec.Command("sh", "-c", wardenScript, "warden", markVariable, mark, folder)
	command.Dir = "/"
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := command.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := command.Start(); err != nil {
		return nil, nil, err
	}
	return input, command.Wait, nil
}
