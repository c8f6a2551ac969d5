package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// start begins a run of a container.
func (r *runner) start(s *slot, base image, now time.Time) {
	if r.hollow(s) {
		s.begin(r.pod.UID)
		r.attach(s, now)
		return
	}
	if base.Commits {
		s.begin(r.pod.UID)
		r.play(s, base, now)
		return
	}
	command, err := r.command(s, base)
	if err != nil {
		s.waiting = waitingFor("CreateContainerConfigError", err.Error())
		r.at(now.Add(time.Second))
		return
	}
	s.begin(r.pod.UID)
	r.clearMessage(s)
	log, err := os.Create(r.folder.log(s.spec.Name, s.restarts))
	if err == nil {
		defer func() { _ = log.Close() }()
		command.Stdout, command.Stderr = log, log
		current := &run{since: now}
		var process *group
		process, err = r.node.launcher.startGroup(command, r.mark(s), func(how ending) { r.ended(s, current, how) })
		if err == nil {
			current.process = process
			r.follow(s, current)
			return
		}
	}
	s.ended = &v1.ContainerStateTerminated{
		ExitCode: 128, Reason: "StartError", Message: err.Error(), ContainerID: s.id,
		StartedAt: metav1.NewTime(now).Rfc3339Copy(), FinishedAt: metav1.NewTime(now).Rfc3339Copy(),
	}
	s.backoff.ended(now, 0)
	r.at(now)
}

// attach gives a hollow container its run.
func (r *runner) attach(s *slot, since time.Time) {
	current := &run{since: since}
	current.process = &nothing{ended: func(how ending) { r.ended(s, current, how) }}
	s.run = current
	s.run.started, s.run.ready = true, true
	s.run.cancel = func() {}
	s.waiting = nil
}

func (r *runner) ended(s *slot, current *run, how ending) {
	r.tell(func() {
		if s.run == current {
			s.finish(how, time.Now())
			if s.ended.Message == "" {
				s.ended.Message = r.lastWords(s)
			}
		}
	})
}

// mark is the value that every process of the container carries.
func (r *runner) mark(s *slot) string {
	return fmt.Sprintf("%s/%s/%s/", r.node.mark, r.pod.UID, s.spec.Name)
}

// command is what the container runs, and what exec needs to join it.
func (r *runner) command(s *slot, base image) (*exec.Cmd, error) {
	ctx, cancel := r.context()
	defer cancel()
	if !s.ran {
		if err := base.unpack(r.folder.container(s.spec.Name)); err != nil {
			return nil, err
		}
	}
	folder, err := r.folder.enter(s.spec)
	if err != nil {
		return nil, err
	}
	if err := r.folder.letSpeak(s.spec); err != nil {
		return nil, err
	}
	if s.spec.WorkingDir != "" {
		folder = filepath.Join(folder, filepath.Join("/", s.spec.WorkingDir))
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return nil, err
		}
	}
	known := facts{pod: r.pod, ip: r.ip, hostIP: r.node.address, node: r.node.config.name}
	variables, err := environment(ctx, r.node.client, known, s.spec, base, folder, r.mark(s))
	if err != nil {
		return nil, err
	}
	variables["TERMINATION_MESSAGE"] = r.folder.message(s.spec.Name)
	words := base.arguments(s.spec.Command, s.spec.Args)
	if len(words) == 0 {
		return nil, fmt.Errorf("no command specified: neither the image %q nor the pod has one", s.spec.Image)
	}
	for i := range words {
		words[i] = expand(words[i], variables)
	}
	list := listed(variables)
	r.mutex.Lock()
	door := r.open[s.spec.Name]
	door.folder, door.environment, door.mark = folder, list, r.mark(s)
	r.open[s.spec.Name] = door
	r.mutex.Unlock()
	command, err := program(words, folder, list)
	if err != nil {
		// As a runtime has it: the container is made and its start fails.
		return &exec.Cmd{Path: words[0], Args: words, Err: err}, nil
	}
	return command, nil
}

// follow makes a process that has started the current run and begins its probes.
func (r *runner) follow(s *slot, current *run) {
	ctx, cancel := context.WithCancel(r.node.context)
	s.run, current.cancel = current, cancel
	current.ready = s.spec.ReadinessProbe == nil
	if s.spec.StartupProbe == nil {
		r.started(ctx, s, current)
		return
	}
	r.probe(ctx, s, current, s.spec.StartupProbe, false, 0, func(success bool) {
		if success {
			r.started(ctx, s, current)
		} else {
			r.unhealthy(s, s.spec.StartupProbe)
		}
	})
}

// started begins the probes that wait for the startup probe.
func (r *runner) started(ctx context.Context, s *slot, current *run) {
	if current.started {
		return
	}
	current.started = true
	if probe := s.spec.ReadinessProbe; probe != nil {
		r.probe(ctx, s, current, probe, false, r.node.config.firstProbe, func(success bool) { current.ready = success })
	}
	if probe := s.spec.LivenessProbe; probe != nil {
		r.probe(ctx, s, current, probe, true, 0, func(success bool) {
			if !success {
				r.unhealthy(s, probe)
			}
		})
	}
}

// unhealthy ends the current run for a probe that failed too often.
func (r *runner) unhealthy(s *slot, probe *v1.Probe) {
	grace := r.grace()
	if seconds := probe.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	now := time.Now()
	s.stop(now, now.Add(grace))
}

// probe tries a probe while the run lasts; each verdict is news for the runner.
func (r *runner) probe(ctx context.Context, s *slot, current *run, probe *v1.Probe, verdict bool, eager time.Duration,
	then func(bool),
) {
	container, ip := s.spec, r.ip
	try := func(ctx context.Context) bool {
		return attempt(ctx, &probe.ProbeHandler, container, ip, func(ctx context.Context, words []string) bool {
			return r.node.inside(ctx, r, container.Name, words) == nil
		})
	}
	go watchProbe(ctx, probe, verdict, current.since, eager, try, func(success bool) {
		r.tell(func() {
			if s.run == current {
				then(success)
			}
		})
	})
}
