package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestAVerdictTakesAsManyResultsInARowAsItsThreshold(t *testing.T) {
	results := newTally(&v1.Probe{SuccessThreshold: 2, FailureThreshold: 3}, false)
	for i, step := range []struct {
		success, reached, verdict bool
	}{
		{true, false, false},
		{false, false, false}, // the row is broken
		{true, false, false},
		{true, true, true},
		{false, false, true},
		{false, false, true},
		{true, false, true},
		{false, false, true},
		{false, false, true},
		{false, true, false},
	} {
		if reached := results.add(step.success); reached != step.reached || results.verdict != step.verdict {
			t.Fatalf("step %d: reached %v, verdict %v", i, reached, results.verdict)
		}
	}
}

// follow tries a probe by a clock that the test owns, as often as there are outcomes, and gives when each try came and
// what was reported.
func follow(t *testing.T, probe v1.Probe, verdict bool, eager time.Duration, outcomes []bool) (tries []time.Duration, said []bool) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			watchProbe(ctx, &probe, verdict, begin, eager, func(context.Context) bool {
				tries = append(tries, time.Since(begin))
				if len(tries) == len(outcomes) {
					// After what follows from this try, and before the next.
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				return outcomes[len(tries)-1]
			}, func(verdict bool) { said = append(said, verdict) })
		}()
		<-ended
	})
	return tries, said
}

func TestAProbeKeepsItsDelayAndPeriod(t *testing.T) {
	probe := v1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 2}
	tries, said := follow(t, probe, true, 0, []bool{true, true, false, true, true})
	for i, at := range tries {
		if want := time.Duration(5+2*i) * time.Second; at != want {
			t.Fatalf("try %d after %v, want %v", i, at, want)
		}
	}
	if len(said) < 3 || !said[0] || said[1] || !said[2] {
		t.Fatalf("reported %v", said)
	}
}

func TestAReadinessProbeIsEagerUntilItsFirstSuccess(t *testing.T) {
	tries, _ := follow(t, v1.Probe{PeriodSeconds: 3}, false, 100*time.Millisecond, []bool{false, false, true, false, true})
	want := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 3200 * time.Millisecond, 6200 * time.Millisecond}
	for i := range want {
		if tries[i] != want[i] {
			t.Fatalf("tries at %v, want %v", tries, want)
		}
	}
}

func TestAStartupProbeThatNeverSucceedsIsReported(t *testing.T) {
	_, said := follow(t, v1.Probe{PeriodSeconds: 1, FailureThreshold: 2}, false, 0, []bool{false, false, false})
	if len(said) != 1 || said[0] {
		t.Fatalf("reported %v, want one failure", said)
	}
}

func TestAnHTTPProbeTakesRedirectsForSuccessAndErrorsForFailure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Host == "inside" {
			w.WriteHeader(http.StatusFound)
		} else {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	address, _ := url.Parse(server.URL)
	number, _ := strconv.Atoi(address.Port())
	container := &v1.Container{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(number)}}}
	get := &v1.HTTPGetAction{Path: "health", Port: intstr.FromString("web")}
	try := func() bool {
		return attempt(t.Context(), &v1.ProbeHandler{HTTPGet: get}, container, address.Hostname(), nil)
	}
	if try() {
		t.Fatal("an error is no success")
	}
	get.HTTPHeaders = []v1.HTTPHeader{{Name: "host", Value: "inside"}}
	if !try() {
		t.Fatal("a redirect is a success")
	}
}
