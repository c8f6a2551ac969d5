package node

import (
	"testing"
	"time"
)

func TestTheFirstRestartIsImmediateAndTheRestDouble(t *testing.T) {
	b := backoff{base: time.Second, limit: 5 * time.Second}
	now := time.Unix(1000, 0)
	for _, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		b.ended(now, time.Millisecond)
		if b.delay != want || !b.until.Equal(now.Add(want)) {
			t.Fatalf("delay %v until %v, want %v after %v", b.delay, b.until, want, now)
		}
	}
}

func TestALongRunBeginsAnew(t *testing.T) {
	b := backoff{base: time.Second, limit: 5 * time.Second}
	now := time.Unix(1000, 0)
	for range 4 {
		b.ended(now, time.Millisecond)
	}
	b.ended(now, 10*time.Second)
	if b.delay != 4*time.Second+time.Second {
		t.Fatalf("a run of twice the limit is not longer than that: delay %v", b.delay)
	}
	b.ended(now, 10*time.Second+1)
	if b.delay != 0 {
		t.Fatalf("delay %v after a long run, want none", b.delay)
	}
	b.ended(now, time.Millisecond)
	if b.delay != time.Second {
		t.Fatalf("delay %v, want the first one", b.delay)
	}
}

func TestAnEndThatWasOrderedCostsNothing(t *testing.T) {
	b := backoff{base: time.Second, limit: 5 * time.Second}
	now := time.Unix(1000, 0)
	for range 4 {
		b.ended(now, time.Millisecond)
	}
	b.forgive()
	if now.Before(b.until) {
		t.Fatalf("still waits until %v", b.until)
	}
}
