package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
)

// server is the part of a kubelet's HTTPS interface that `kubectl exec` and `kubectl logs` reach through the API
// server. It asks nobody for credentials: the node's address is one of this machine.
func (n *Node) server() (*http.Server, error) {
	certificate, err := selfSigned(n.address)
	if err != nil {
		return nil, err
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/exec/{namespace}/{pod}/{container}", n.serveExec)
	routes.HandleFunc("/exec/{namespace}/{pod}/{uid}/{container}", n.serveExec)
	routes.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if n.link.down() {
				// Nothing comes through a cut, not even a refusal.
				panic(http.ErrAbortHandler)
			}
			routes.ServeHTTP(w, request)
		}),
		// SPDY takes over the connection, which HTTP/2 does not allow.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}, nil
}

func selfSigned(address string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "node"},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP(address)},
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}, nil
}

// find gives the runner of the pod that has the name now.
func (n *Node) find(namespace, name string) (*runner, error) {
	object, present, err := n.pods.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !present {
		return nil, fmt.Errorf("pod %s/%s is not on this node", namespace, name)
	}
	found := n.runner(object.(*v1.Pod).UID)
	if found == nil {
		return nil, fmt.Errorf("pod %s/%s has no processes", namespace, name)
	}
	return found, nil
}

// findOrBegin gives a hollow pod that could do without a runner one, for whoever wants to enter it.
func (n *Node) findOrBegin(namespace, name string) (*runner, error) {
	found, err := n.find(namespace, name)
	if err == nil {
		return found, nil
	}
	object, present, _ := n.pods.GetStore().GetByKey(namespace + "/" + name)
	if !present {
		return nil, err
	}
	pod := object.(*v1.Pod)
	if pod.Status.Phase != v1.PodRunning || pod.DeletionTimestamp != nil || !n.quick(pod) {
		return nil, err
	}
	return n.begin(namespace+"/"+name, pod), nil
}
