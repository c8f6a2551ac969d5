// Command cluster is a Kubernetes cluster on one machine, for the scenarios and for `make demo`, in one program.
//
//	cluster control-plane ETCD-FLAG… -- KUBE-APISERVER-FLAG… [-- CONTROLLERS-FLAG…]
//	cluster node FLAG…
//	cluster kubectl ARGUMENT…
//
// Called by the name kubectl, as a link to this program, it is kubectl.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sandgate.test/node"
)

const usage = `usage: cluster control-plane ETCD-FLAG… -- KUBE-APISERVER-FLAG… [-- CONTROLLERS-FLAG…]
       cluster node FLAG…
       cluster kubectl ARGUMENT…

control-plane  etcd and kube-apiserver, each with its own flags, until the standard input ends. With a third part,
               also the controllers and kube-scheduler. SANDGATE_REMOVE_AT_END names a folder that goes with it.
node           a node that runs pods as processes
kubectl        kubectl of the same version`

func main() {
	command, arguments := filepath.Base(os.Args[0]), os.Args[1:]
	if command != "kubectl" {
		if len(arguments) == 0 {
			fmt.Fprintln(os.Stderr, usage)
			os.Exit(2)
		}
		command, arguments = arguments[0], arguments[1:]
	}
	switch command {
	case "control-plane":
		os.Exit(controlPlane(arguments))
	case "node":
		os.Exit(node.Main(arguments))
	case "kubectl":
		os.Exit(kubectl(arguments))
	case "help", "-h", "--help":
		fmt.Println(usage)
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
}
