package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const etcdDeadline = 30 * time.Second

// controlPlane runs etcd and kube-apiserver, each with its own flags, in one process that cannot outlive the test which
// started it. The flags are those of the two programs, so that the harness can start the two binaries of an envtest
// folder instead. The process ends when its standard input does; a kill loses nothing that etcd has acknowledged.
//
// With a third part of the arguments, which names at least a --kubeconfig, the controllers and kube-scheduler start
// as soon as the server is ready. They speak to it over HTTPS, as they would from elsewhere.
func controlPlane(arguments []string) int {
	parts, err := split(arguments)
	if err != nil {
		return fail(2, err)
	}
	var flags *controllersFlags
	if len(parts) == 3 {
		if flags, err = parseControllersFlags(parts[2]); err != nil {
			return fail(2, err)
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if folder := os.Getenv("SANDGATE_REMOVE_AT_END"); folder != "" {
			_ = os.RemoveAll(folder)
		}
		os.Exit(0)
	}()
	go etcdmain.Main(append([]string{"etcd"}, parts[0]...))
	if err := healthy(clientURL(parts[0])); err != nil {
		return fail(1, err)
	}
	if flags != nil {
		go func() { os.Exit(fail(1, runControllers(context.Background(), flags))) }()
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(parts[1])
	return cli.Run(command)
}

func fail(status int, err error) int {
	fmt.Fprintln(os.Stderr, "cluster control-plane:", err)
	return status
}

// split gives the flags between the bare `--`s: two parts, or three.
func split(arguments []string) ([][]string, error) {
	var parts [][]string
	for rest := arguments; ; {
		at := slices.Index(rest, "--")
		if at < 0 {
			parts = append(parts, slices.Clone(rest))
			break
		}
		parts, rest = append(parts, slices.Clone(rest[:at])), rest[at+1:]
	}
	if len(parts) != 2 && len(parts) != 3 {
		return nil, errors.New("give ETCD-FLAG… -- KUBE-APISERVER-FLAG… [-- CONTROLLERS-FLAG…]")
	}
	if clientURL(parts[0]) == "" {
		return nil, errors.New("the flag --listen-client-urls of etcd is missing")
	}
	return parts, nil
}

func clientURL(etcd []string) string {
	for _, flag := range etcd {
		if url, found := strings.CutPrefix(flag, "--listen-client-urls="); found {
			return url
		}
	}
	return ""
}

// healthy waits until etcd serves: kube-apiserver started earlier would lose seconds in its own back-off.
func healthy(url string) error {
	client := http.Client{Timeout: time.Second}
	for end := time.Now().Add(etcdDeadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		answer, err := client.Get(url + "/health")
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("etcd did not become healthy at %s within %v", url, etcdDeadline)
}
