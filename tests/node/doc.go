// Package node is a virtual kubelet for tests and demos. To the API server it is a node: it registers itself, renews
// its lease, runs the pods that are bound to it and says truly how they are. What it runs are processes of this
// machine. There is no isolation, no image and no mount: never give it a pod that you would not run by hand.
//
// # Pods
//
// Each pod gets an address of its own in 127/8 and a folder of its own, which goes with it. A container is a
// process in a session of its own, with its working folder below the pod's folder. Volumes are folders; a mount
// path is a link below the working folder, so `/data` of the pod is `./data` of the process. Secrets and
// config maps are there as files and as variables. POD_IP, POD_NAME and POD_NAMESPACE are set in every container.
//
// Init containers, sidecars, restart policies, the three probes, readiness gates, deadlines, graceful
// deletion and the change of an image in place do what they do on a kubelet. So do the exit codes: 143 and
// 137 for processes that a signal ended, 128 for a command that could not be started. Not there: lifecycle hooks,
// gRPC probes (taken for TCP ones), resources and their limits, events, attach, port-forward, ephemeral containers.
//
// Three things are faster than on a kubelet, by flags: the back-off of restarts, which starts at a quarter of a
// second; a readiness probe until its first success; heartbeats.
//
// # Images
//
// A table (--images; that of the scenarios is tests/cluster/images.yaml) says what stands behind an image's name:
//
//	images:
//	  example.test/server:                # tag and digest do not matter unless they stand here
//	    command: [python3, ./server.py]   # ./ and ../ are beside the table
//	    args: [$(POD_IP)]                 # variables as in a pod
//	    env: {PORT: "8000"}
//	    inherit: [A_PROGRAM]              # variables of the node itself
//	  example.test/nothing: {hollow: true}
//	  example.test/committer: {commits: true}
//
// A pod's `command` and `args` replace them as in Kubernetes. What is not in the table cannot be pulled.
//
// A container of an image that commits is played: it makes images of the containers that its arguments name, as
// OpenSandbox's image-committer does (see commit.go). A pod of such an image begins with the files that the container
// had then. The images are the node's, and go with it.
//
// # Signals and last words
//
// `kill 1` in a container is about the container's own first process. The node gives the signal to the container's
// processes and never runs such a command. What a container writes to its terminationMessagePath, here the file that
// TERMINATION_MESSAGE names, is the message of its end.
//
// # Hollow pods
//
// A container of a hollow image has no process. A pod of such containers is ready at once, with an address
// on which nobody listens. It costs the node one write of its status and an entry in a map, so that ten thousand of them
// fit on one node.
//
// # Failures on cue
//
// Annotations of the pod, which may come and go while it runs:
//
//	node.sandgate.test/image-pull: fail     no image can be pulled, until this goes or the image changes
//	node.sandgate.test/start-delay: 3s      so long in ContainerCreating
//	node.sandgate.test/ready-delay: 3s      so long from a container's start to its readiness
//	node.sandgate.test/crash-after: 500ms   every run of a container ends so long after its start, with code 1
//	node.sandgate.test/exit: "3"            … with this code; alone: at once
//	node.sandgate.test/ready: "false"       not ready, whatever the probes say, while this is there
//	node.sandgate.test/stop-delay: 2s       so long from the deletion to the signal
//	node.sandgate.test/hollow: "true"       no processes, whatever the images are
//	node.sandgate.test/commit: fail         no image can be made of its containers
//	node.sandgate.test/commit-delay: 2s     so long until one is made
//
// A cue that the node does not know keeps the pod from starting, with a message that says so.
//
// A lost node: SIGUSR1, or a line `cut` on the standard input, cuts the node off the API server as a network would.
// Heartbeats and status stop, deletions are not seen, exec is not answered; the processes go on. SIGUSR2 or a
// line `heal` bring it back. SIGKILL ends the node and everything it runs; a node that starts again under the
// same name finds its pods as after a reboot: their containers are restarted and counted, at new addresses.
// Hollow pods have nothing to lose and keep theirs.
//
// # Addresses
//
// Whoever listens on port 31999 of an address of 127/8 holds that address: the scenarios of the tests and
// the node follow the same rule. Hollow pods have theirs from 127.0.16.0 up, where nobody takes a place, in blocks
// held by the same port of their last address. An address that was freed is used again late, or, with --recycle, first.
//
// # Nothing is left behind
//
// The kernel kills a container's process with the node. What that process started carries the variable SANDGATE_RUN;
// the node kills it with the container, and a small shell, the warden, kills it when the node is killed. A process that
// leaves its session and drops that variable escapes both.
package node
