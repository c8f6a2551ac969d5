package node

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The prefix of every annotation that makes a pod misbehave.
const cuePrefix = "node.sandgate.test/"

// cues are the failures that a pod's annotations ask for. The zero value asks for none.
type cues struct {
	// The pod has no processes, whatever its images are.
	hollow bool
	// No image of the pod can be pulled.
	pullFails bool
	// Time from the pod's arrival to its first container.
	startDelay time.Duration
	// Time from a container's start to its readiness.
	readyDelay time.Duration
	// Time from the order to stop to the signal.
	stopDelay time.Duration
	// Every run of a container ends so long after its start.
	crashes    bool
	crashAfter time.Duration
	// The exit code of such an end.
	exit int32
	// No container is ready, whatever its probe says.
	unready bool
	// No image can be made of the pod's containers, or only after so long.
	commitFails bool
	commitDelay time.Duration
}

// cuesOf reads the annotations. A cue that it does not know, or cannot read, is an error: a test that misspells
// a failure must not pass for want of it.
func cuesOf(annotations map[string]string) (cues, error) {
	found := cues{exit: 1}
	for key, value := range annotations {
		name, ours := strings.CutPrefix(key, cuePrefix)
		if !ours {
			continue
		}
		var err error
		switch name {
		case "hollow":
			found.hollow, err = strconv.ParseBool(value)
		case "image-pull":
			found.pullFails = value == "fail"
			if value != "fail" && value != "ok" {
				err = fmt.Errorf("want fail or ok")
			}
		case "commit":
			found.commitFails = value == "fail"
			if value != "fail" && value != "ok" {
				err = fmt.Errorf("want fail or ok")
			}
		case "commit-delay":
			found.commitDelay, err = time.ParseDuration(value)
		case "start-delay":
			found.startDelay, err = time.ParseDuration(value)
		case "ready-delay":
			found.readyDelay, err = time.ParseDuration(value)
		case "stop-delay":
			found.stopDelay, err = time.ParseDuration(value)
		case "crash-after":
			found.crashes = true
			found.crashAfter, err = time.ParseDuration(value)
		case "exit":
			var code int64
			code, err = strconv.ParseInt(value, 10, 32)
			found.crashes, found.exit = true, int32(code)
		case "ready":
			var ready bool
			ready, err = strconv.ParseBool(value)
			found.unready = !ready
		default:
			err = fmt.Errorf("no such cue")
		}
		if err != nil {
			return cues{exit: 1}, fmt.Errorf("annotation %s: %q: %w", key, value, err)
		}
	}
	return found, nil
}

// quick says that a hollow pod with these cues needs nothing but its status written.
func (c cues) quick() bool {
	c.hollow, c.unready, c.commitFails, c.commitDelay = false, false, false, 0
	return c == cues{exit: 1}
}
