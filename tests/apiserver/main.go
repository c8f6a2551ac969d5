// Command apiserver is the control plane of the scenarios: etcd and kube-apiserver, each with its own flags, in one
// process that cannot outlive the test which started it.
//
//	apiserver ETCD-FLAG… -- KUBE-APISERVER-FLAG…
//
// The flags are those of the two programs, so that the harness can start the two binaries of an envtest folder
// instead. The process ends when its standard input does, and takes the folder in SANDGATE_REMOVE_AT_END with it; a kill
// loses nothing that etcd has acknowledged.
package main

import (
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

func main() {
	etcd, apiserver, err := split(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(2)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if folder := os.Getenv("SANDGATE_REMOVE_AT_END"); folder != "" {
			_ = os.RemoveAll(folder)
		}
		os.Exit(0)
	}()
	go etcdmain.Main(append([]string{"etcd"}, etcd...))
	if err := healthy(clientURL(etcd)); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(apiserver)
	os.Exit(cli.Run(command))
}

// split gives the flags before and after the bare `--`.
func split(arguments []string) (etcd, apiserver []string, err error) {
	at := slices.Index(arguments, "--")
	if at < 0 {
		return nil, nil, errors.New("usage: apiserver ETCD-FLAG… -- KUBE-APISERVER-FLAG…")
	}
	etcd, apiserver = arguments[:at], arguments[at+1:]
	if clientURL(etcd) == "" {
		return nil, nil, errors.New("the flag --listen-client-urls of etcd is missing")
	}
	return slices.Clone(etcd), apiserver, nil
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
