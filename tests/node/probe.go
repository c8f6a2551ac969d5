package node

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tally turns results of a probe into a verdict: it changes after as many results in a row as its thresholds say.
type tally struct {
	verdict            bool
	successes, failing int32
	row                int32
	rowIs              bool
}

func newTally(probe *v1.Probe, verdict bool) *tally {
	return &tally{verdict: verdict, successes: max(probe.SuccessThreshold, 1), failing: max(probe.FailureThreshold, 1)}
}

// add takes a result and says whether a threshold was reached, which may be with the verdict there was before.
func (t *tally) add(success bool) bool {
	if t.row == 0 || t.rowIs != success {
		t.row, t.rowIs = 0, success
	}
	t.row++
	threshold := t.failing
	if success {
		threshold = t.successes
	}
	if t.row < threshold {
		return false
	}
	t.verdict = success
	return true
}

// watchProbe tries a probe at its period until the context ends and reports each verdict that is new. `eager` is the
// period before the first success; zero keeps the probe's own.
func watchProbe(ctx context.Context, probe *v1.Probe, verdict bool, started time.Time, eager time.Duration,
	try func(context.Context) bool, report func(bool),
) {
	period := time.Duration(max(probe.PeriodSeconds, 1)) * time.Second
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	first := started.Add(time.Duration(probe.InitialDelaySeconds) * time.Second)
	results := newTally(probe, verdict)
	told, reported := verdict, false
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		bounded, cancel := context.WithTimeout(ctx, timeout)
		success := try(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if results.add(success) && (results.verdict != told || !reported) {
			told, reported = results.verdict, true
			report(told)
		}
		if eager > 0 && !results.verdict && !success && !(reported && told) && eager < period {
			timer.Reset(eager)
		} else {
			eager = 0
			timer.Reset(period)
		}
	}
}

// attempt tries a handler once. A gRPC probe is taken for a TCP one: the node has no gRPC client.
func attempt(ctx context.Context, handler *v1.ProbeHandler, container *v1.Container, ip string,
	exec func(context.Context, []string) bool,
) bool {
	switch {
	case handler.Exec != nil:
		return exec(ctx, handler.Exec.Command)
	case handler.HTTPGet != nil:
		get := handler.HTTPGet
		return attemptHTTP(ctx, get, host(get.Host, ip), port(get.Port, container))
	case handler.TCPSocket != nil:
		return attemptTCP(ctx, host(handler.TCPSocket.Host, ip), port(handler.TCPSocket.Port, container))
	case handler.GRPC != nil:
		return attemptTCP(ctx, ip, int(handler.GRPC.Port))
	default:
		return true
	}
}

func host(own, ip string) string {
	if own != "" {
		return own
	}
	return ip
}

// port is the number behind a port's name.
func port(value intstr.IntOrString, container *v1.Container) int {
	if value.Type == intstr.Int {
		return value.IntValue()
	}
	for _, port := range container.Ports {
		if port.Name == value.StrVal {
			return int(port.ContainerPort)
		}
	}
	number, _ := strconv.Atoi(value.StrVal)
	return number
}

func attemptTCP(ctx context.Context, host string, port int) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

var probeClient = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func attemptHTTP(ctx context.Context, get *v1.HTTPGetAction, host string, port int) bool {
	scheme := "http"
	if get.Scheme == v1.URISchemeHTTPS {
		scheme = "https"
	}
	path := get.Path
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	url := scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port)) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Header.Set("User-Agent", "kube-probe/1.36")
	for _, header := range get.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
		}
	}
	answer, err := probeClient.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode >= 200 && answer.StatusCode < 400
}
