package node

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// step does what is due at this moment.
func (r *runner) step(now time.Time) {
	switch {
	case r.gone:
		r.end(now, now, now)
	case r.pod.DeletionTimestamp != nil:
		r.delete(now)
	case r.terminal != "":
		r.end(now, now, now.Add(r.grace()))
	default:
		r.keep(now)
	}
	for _, s := range r.slots {
		if next := s.escalate(now); !next.IsZero() {
			r.at(next)
		}
	}
}

// delete ends the pod within the grace that its deletion has now: a second, shorter deletion counts.
func (r *runner) delete(now time.Time) {
	if r.deletingAt.IsZero() {
		r.deletingAt = now
	}
	grace := r.grace()
	if seconds := r.pod.DeletionGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	r.end(now, r.deletingAt.Add(r.cues.stopDelay), r.deletingAt.Add(grace))
}

// end stops what runs: first the containers and unfinished init containers, then the sidecars. Once nothing runs, the
// pod has its outcome and its address is free.
func (r *runner) end(now, termAt, killAt time.Time) {
	busy, sidecars := false, false
	for _, s := range r.slots {
		if s.run == nil {
			s.waiting = nil
			continue
		}
		if s.sidecar() {
			sidecars = true
			continue
		}
		busy = true
		s.stop(termAt, killAt)
	}
	if busy && !r.gone {
		return
	}
	if busy || sidecars {
		for _, s := range r.slots {
			s.stop(now, killAt)
		}
		return
	}
	if r.over {
		return
	}
	// A hollow pod stops at once; its address is not needed for the delay on cue, its object is.
	if r.terminal == "" && now.Before(termAt) && !r.gone && r.cues.stopDelay > 0 {
		r.at(termAt)
		return
	}
	if r.terminal == "" {
		r.terminal = r.outcome()
	}
	r.over = true
	r.release()
}

func (r *runner) outcome() v1.PodPhase {
	var main []v1.ContainerStatus
	for _, s := range r.slots {
		if !s.init {
			main = append(main, s.status(false))
		}
	}
	return outcome(main)
}

// keep brings the pod towards running, or to its end.
func (r *runner) keep(now time.Time) {
	if limit := r.pod.Spec.ActiveDeadlineSeconds; limit != nil {
		deadline := r.arrived.Add(time.Duration(*limit) * time.Second)
		if !now.Before(deadline) {
			r.terminal, r.reason = v1.PodFailed, "DeadlineExceeded"
			r.message = "Pod was active on the node longer than the specified deadline"
			r.end(now, now, now.Add(r.grace()))
			return
		}
		r.at(deadline)
	}
	if !r.prepare(now) {
		return
	}
	if begin := r.arrived.Add(r.cues.startDelay); now.Before(begin) && !r.inited {
		r.at(begin)
		return
	}
	if r.initialize(now) {
		r.inited = true
		r.sustain(now)
	}
}

// prepare gives the pod its address and its folders.
func (r *runner) prepare(now time.Time) bool {
	if r.prepared && r.filled {
		return true
	}
	fail := func(reason string, err error) bool {
		for _, s := range r.slots {
			if s.run == nil {
				s.waiting = waitingFor(reason, err.Error())
			}
		}
		r.at(now.Add(time.Second))
		return false
	}
	if r.cueError != nil {
		return fail("CreateContainerConfigError", r.cueError)
	}
	if !r.prepared {
		if err := r.settle(); err != nil {
			return fail("ContainerCreating", err)
		}
		r.prepared = true
	}
	ctx, cancel := r.context()
	defer cancel()
	if err := r.folder.fill(ctx, r.node.client, r.pod); err != nil {
		return fail("ContainerCreating", err)
	}
	r.filled = true
	for _, s := range r.slots {
		s.waiting = nil
	}
	return true
}

// settle takes an address. A pod all of whose containers are hollow needs none that is held.
func (r *runner) settle() error {
	for _, s := range r.slots {
		if r.hollow(s) {
			continue
		}
		place, err := r.node.places.take()
		if err != nil {
			return err
		}
		r.place, r.ip = place, place.ip.String()
		return nil
	}
	ip, err := r.node.hollowAddress(r.pod)
	if err != nil {
		return err
	}
	r.hollowIP, r.ip = ip, ip.String()
	return nil
}

func (r *runner) release() {
	if r.place.lock != nil {
		r.node.places.free(r.place)
		r.place = place{}
	}
	if r.hollowIP.IsValid() {
		r.node.freeHollow(r.pod.UID)
	}
}

// initialize runs the init containers one after the other and says when the rest may start. Sidecars are started on
// their turn and kept up from then on.
func (r *runner) initialize(now time.Time) bool {
	for _, s := range r.slots {
		if !s.init {
			break
		}
		if s.sidecar() {
			r.ensure(s, now)
			if !r.inited && (s.run == nil || !s.run.started) {
				return false
			}
			continue
		}
		if r.inited || s.run == nil && s.ended != nil && s.ended.ExitCode == 0 {
			continue
		}
		if s.run == nil && !s.again(r.pod.Spec.RestartPolicy) {
			r.terminal = v1.PodFailed
			r.end(now, now, now.Add(r.grace()))
			return false
		}
		r.ensure(s, now)
		return false
	}
	return true
}

// sustain keeps the containers running, as far as the restart policy wants them to.
func (r *runner) sustain(now time.Time) {
	left := false
	for _, s := range r.slots {
		if s.init {
			continue
		}
		if s.run != nil || s.again(r.pod.Spec.RestartPolicy) {
			left = true
			r.ensure(s, now)
		}
	}
	if !left {
		r.terminal = r.outcome()
		r.end(now, now, now.Add(r.grace()))
	}
}

// ensure starts a container, or says why it does not run yet; a container that runs is tended.
func (r *runner) ensure(s *slot, now time.Time) {
	if s.run != nil {
		r.tend(s, now)
		return
	}
	if now.Before(s.backoff.until) {
		s.waiting = waitingFor("CrashLoopBackOff", fmt.Sprintf("back-off %v restarting failed container=%s pod=%s_%s(%s)",
			s.backoff.delay, s.spec.Name, r.pod.Name, r.pod.Namespace, r.pod.UID))
		r.at(s.backoff.until)
		return
	}
	found, present := r.node.image(s.spec.Image)
	if r.cues.pullFails || !present && !r.cues.hollow {
		r.fail(s, now)
		return
	}
	r.start(s, found, now)
}

// fail keeps a container waiting for its image: the failed attempt shows for half of the time to the next one.
func (r *runner) fail(s *slot, now time.Time) {
	if !now.Before(s.pull.until) {
		s.pullAt = now
		s.pull.ended(now, 0)
		if s.pull.delay == 0 {
			s.pull.ended(now, 0)
		}
	}
	if half := s.pullAt.Add(s.pull.delay / 2); now.Before(half) {
		s.waiting = waitingFor("ErrImagePull", fmt.Sprintf("failed to pull image %q: not found", s.spec.Image))
		r.at(half)
		return
	}
	s.waiting = waitingFor("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q", s.spec.Image))
	r.at(s.pull.until)
}

// tend looks after a container that runs: a new image or an end on cue stops it.
func (r *runner) tend(s *slot, now time.Time) {
	if s.run.stopping {
		return
	}
	if s.image != s.spec.Image {
		s.run.ordered = true
		s.stop(now, now.Add(r.grace()))
		return
	}
	if r.cues.crashes {
		if due := s.run.since.Add(r.cues.crashAfter); now.Before(due) {
			r.at(due)
		} else {
			s.run.forced = &ending{code: r.cues.exit}
			s.stop(now, now)
		}
		return
	}
	if due := s.run.since.Add(r.cues.readyDelay); now.Before(due) {
		r.at(due)
	}
}
