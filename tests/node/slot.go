package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slot is a container of a pod through all its runs. Only the runner's goroutine touches it.
type slot struct {
	spec *v1.Container
	init bool
	// The current run, or nothing.
	run *run
	// Why there is no run, if not because the last one ended.
	waiting *v1.ContainerStateWaiting
	// How the newest run ended, and the one before it.
	ended, last *v1.ContainerStateTerminated
	// The image of the newest run and its identity.
	image string
	id    string
	// It has run before, perhaps in an earlier life of the node.
	ran      bool
	restarts int32
	backoff  backoff
	pull     backoff
	pullAt   time.Time
}

// run is one run of a container.
type run struct {
	process process
	since   time.Time
	// Ends the probes.
	cancel context.CancelFunc
	// Verdicts of the probes.
	started, ready bool
	// The order to stop was given: the signals follow at these times.
	stopping       bool
	termAt, killAt time.Time
	termed, killed bool
	// What to report instead of what the process did, for an end on cue.
	forced *ending
	// The end was ordered by the node, so the next start need not wait.
	ordered bool
}

func waitingFor(reason, message string) *v1.ContainerStateWaiting {
	return &v1.ContainerStateWaiting{Reason: reason, Message: message}
}

// sidecar says that this is an init container that stays.
func (s *slot) sidecar() bool { return s.init && sidecar(s.spec) }

// restarts says whether a container that ended so is started again.
func (s *slot) again(policy v1.RestartPolicy) bool {
	if s.ended == nil {
		return true
	}
	switch {
	case s.sidecar() || policy == v1.RestartPolicyAlways && !s.init:
		return true
	case policy == v1.RestartPolicyNever:
		return false
	default:
		return s.ended.ExitCode != 0
	}
}

// stop orders the end of the current run. A second order can only bring it forward.
func (s *slot) stop(termAt, killAt time.Time) {
	r := s.run
	if r == nil {
		return
	}
	if !r.stopping {
		r.stopping, r.termAt, r.killAt = true, termAt, killAt
		return
	}
	if termAt.Before(r.termAt) {
		r.termAt = termAt
	}
	if killAt.Before(r.killAt) {
		r.killAt = killAt
	}
}

// escalate sends the signals that are due and says when the next one is.
func (s *slot) escalate(now time.Time) (next time.Time) {
	r := s.run
	if r == nil || !r.stopping || r.killed {
		return time.Time{}
	}
	if !now.Before(r.killAt) {
		r.killed = true
		r.process.kill()
		return time.Time{}
	}
	if !r.termed && !now.Before(r.termAt) {
		r.termed = true
		r.process.term()
	}
	if !r.termed && r.termAt.Before(r.killAt) {
		return r.termAt
	}
	return r.killAt
}

// finish records the end of the current run.
func (s *slot) finish(how ending, now time.Time) {
	r := s.run
	if r.forced != nil {
		how = *r.forced
	}
	r.cancel()
	reason := "Completed"
	if how.code != 0 {
		reason = "Error"
	}
	s.ended = &v1.ContainerStateTerminated{
		ExitCode: how.code, Signal: how.signal, Reason: reason, ContainerID: s.id,
		StartedAt: metav1.NewTime(r.since).Rfc3339Copy(), FinishedAt: metav1.NewTime(now).Rfc3339Copy(),
	}
	s.run, s.waiting = nil, nil
	s.backoff.ended(now, now.Sub(r.since))
	if r.ordered {
		s.backoff.forgive()
	}
}

// begin makes room for a new run.
func (s *slot) begin(uid types.UID) {
	if s.ran {
		s.restarts++
	}
	s.ran = true
	if s.ended != nil {
		s.last = s.ended
	}
	s.ended, s.waiting = nil, nil
	s.image = s.spec.Image
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", uid, s.spec.Name, s.restarts))
	s.id = "process://" + hex.EncodeToString(sum[:])
	s.pull = backoff{base: s.pull.base, limit: s.pull.limit}
}

// status is the container's status as the API has it.
func (s *slot) status(ready bool) v1.ContainerStatus {
	started := s.run != nil && s.run.started
	status := v1.ContainerStatus{
		Name: s.spec.Name, Image: s.spec.Image, RestartCount: s.restarts, Started: &started, Ready: ready,
	}
	if s.ran {
		status.Image, status.ImageID, status.ContainerID = s.image, imageID(s.image), s.id
	}
	if s.last != nil {
		status.LastTerminationState.Terminated = s.last
	}
	switch {
	case s.run != nil:
		status.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(s.run.since).Rfc3339Copy()}
	case s.waiting != nil:
		status.State.Waiting = s.waiting
		if s.ended != nil {
			status.LastTerminationState.Terminated = s.ended
		}
	case s.ended != nil:
		status.State.Terminated = s.ended
	default:
		status.State.Waiting = waitingFor("ContainerCreating", "")
	}
	return status
}
