package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runner is the life of one pod: one goroutine that takes news (a new version of the pod, the end of a process, a
// verdict of a probe), does what is due, and publishes a view. It never writes to the API server, so an API server
// that is slow or gone does not hold it up.
type runner struct {
	node *Node
	key  string
	// News, in order, for the goroutine.
	mutex sync.Mutex
	news  []func()
	wake  chan struct{}
	// The newest view, and what exec and logs need.
	published *view
	version   string
	open      map[string]entry
	// Closed when the goroutine has ended and everything of the pod is gone.
	done chan struct{}

	// Below: the goroutine's own.
	pod        *v1.Pod
	cues       cues
	cueError   error
	arrived    time.Time
	gone       bool
	place      place
	hollowIP   netip.Addr
	ip         string
	folder     layout
	prepared   bool
	filled     bool
	inited     bool
	slots      []*slot
	next       time.Time
	terminal   v1.PodPhase
	reason     string
	message    string
	deletingAt time.Time
	over       bool
}

// entry is what it takes to run a command in a container, and where its logs are.
type entry struct {
	folder      string
	environment []string
	mark        string
	running     bool
	restarts    int32
	hollow      bool
}

func newRunner(node *Node, key string, pod *v1.Pod) *runner {
	r := &runner{
		node: node, key: key, wake: make(chan struct{}, 1), done: make(chan struct{}), open: map[string]entry{},
		arrived: time.Now(), version: pod.ResourceVersion, folder: layout{filepath.Join(node.folder, string(pod.UID))},
	}
	r.take(pod)
	add := func(containers []v1.Container, statuses []v1.ContainerStatus, init bool) {
		for i := range containers {
			s := &slot{
				spec: &containers[i], init: init,
				backoff: backoff{base: node.config.backoff, limit: node.config.backoffLimit},
				pull:    backoff{base: node.config.backoff, limit: node.config.backoffLimit},
			}
			for j := range statuses {
				if statuses[j].Name == s.spec.Name {
					r.inherit(s, &statuses[j])
				}
			}
			r.slots = append(r.slots, s)
		}
	}
	add(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, true)
	add(pod.Spec.Containers, pod.Status.ContainerStatuses, false)
	r.publish()
	return r
}

// inherit takes over what an earlier life of the node wrote about a container. Its process died with that node, as by
// a reboot; a hollow container has none and goes on.
func (r *runner) inherit(s *slot, status *v1.ContainerStatus) {
	if status.ContainerID == "" {
		return
	}
	s.ran, s.restarts, s.image, s.id = true, status.RestartCount, status.Image, status.ContainerID
	s.last = status.LastTerminationState.Terminated
	switch {
	case status.State.Running != nil && r.hollow(s):
		r.inited = true
		r.attach(s, status.State.Running.StartedAt.Time)
	case s.init:
		// A new sandbox runs its init containers again.
	case status.State.Running != nil:
		s.ended = &v1.ContainerStateTerminated{
			ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "the node was restarted",
			StartedAt: status.State.Running.StartedAt, FinishedAt: metav1.Now().Rfc3339Copy(),
			ContainerID: status.ContainerID,
		}
	case status.State.Terminated != nil:
		s.ended = status.State.Terminated
	}
}

func (r *runner) hollow(s *slot) bool {
	found, _ := r.node.image(s.spec.Image)
	return r.cues.hollow || found.Hollow
}

// tell gives the goroutine news.
func (r *runner) tell(news func()) {
	r.mutex.Lock()
	r.news = append(r.news, news)
	r.mutex.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// update brings a newer version of the pod.
func (r *runner) update(pod *v1.Pod) {
	r.mutex.Lock()
	known := r.version == pod.ResourceVersion
	r.version = pod.ResourceVersion
	r.mutex.Unlock()
	if !known {
		r.tell(func() { r.take(pod) })
	}
}

// vanish says that the pod is gone from the API: whatever is left of it is killed at once.
func (r *runner) vanish() { r.tell(func() { r.gone = true }) }

func (r *runner) take(pod *v1.Pod) {
	r.pod = pod
	r.cues, r.cueError = cuesOf(pod.Annotations)
	find := func(containers []v1.Container) {
		for i := range containers {
			for _, s := range r.slots {
				if s.spec.Name == containers[i].Name {
					s.spec = &containers[i]
				}
			}
		}
	}
	find(pod.Spec.InitContainers)
	find(pod.Spec.Containers)
}

func (r *runner) live() {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mutex.Lock()
		news := r.news
		r.news = nil
		r.mutex.Unlock()
		for _, news := range news {
			news()
		}
		r.next = time.Time{}
		r.step(time.Now())
		r.publish()
		if r.gone && r.over {
			_ = os.RemoveAll(r.folder.root)
			return
		}
		if r.next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(r.next))
		}
		select {
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// at asks for a step no later than then.
func (r *runner) at(then time.Time) {
	if r.next.IsZero() || then.Before(r.next) {
		r.next = then
	}
}

// publish makes the newest view visible and has it written.
func (r *runner) publish() {
	now := time.Now()
	v := &view{
		ip: r.ip, hostIP: r.node.address, startTime: r.arrived, terminal: r.terminal, reason: r.reason,
		message: r.message, prepared: r.prepared, initialized: r.inited, over: r.over,
	}
	open := map[string]entry{}
	for _, s := range r.slots {
		status := s.status(r.ready(s, now))
		if !r.inited && !s.init && status.State.Waiting != nil && len(r.pod.Spec.InitContainers) > 0 {
			status.State.Waiting = waitingFor("PodInitializing", "")
		}
		if s.init {
			v.init = append(v.init, status)
		} else {
			v.main = append(v.main, status)
		}
	}
	r.mutex.Lock()
	for _, s := range r.slots {
		known := r.open[s.spec.Name]
		known.running, known.restarts, known.hollow = s.run != nil, s.restarts, r.hollow(s)
		open[s.spec.Name] = known
	}
	changed := !reflect.DeepEqual(r.published, v)
	r.published, r.open = v, open
	r.mutex.Unlock()
	if changed {
		r.node.queue.Add(r.key)
	}
}

func (r *runner) view() *view {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.published
}

// enter gives what exec and logs need of a container. Without a name it is the pod's first.
func (r *runner) enter(container string) (entry, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found, ok := r.open[container]
	if !ok {
		return entry{}, fmt.Errorf("the pod has no container %q", container)
	}
	return found, nil
}

// ready says whether a container counts as ready. A delay on cue asks for a step at its end.
func (r *runner) ready(s *slot, now time.Time) bool {
	if s.run == nil {
		return s.init && !s.sidecar() && s.ended != nil && s.ended.ExitCode == 0
	}
	if s.init && !s.sidecar() || r.cues.unready || !s.run.started || !s.run.ready {
		return false
	}
	return !now.Before(s.run.since.Add(r.cues.readyDelay))
}

// grace is the time between the two signals for an end that is not the pod's deletion.
func (r *runner) grace() time.Duration {
	if seconds := r.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 30 * time.Second
}

func (r *runner) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.node.context, 10*time.Second)
}
