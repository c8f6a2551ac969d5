package node

import "time"

// backoff says when a container that ended may start again. The first restart is immediate; each further one waits
// twice as long as the one before, up to a limit; a run longer than twice the limit starts from the beginning.
// The times are flags, because ten seconds and five minutes would make tests slow.
type backoff struct {
	base, limit time.Duration
	delay       time.Duration
	until       time.Time
	began       bool
}

// ended records the end of a run.
func (b *backoff) ended(at time.Time, ran time.Duration) {
	switch {
	case !b.began || ran > 2*b.limit:
		b.began, b.delay = true, 0
	case b.delay == 0:
		b.delay = b.base
	default:
		b.delay *= 2
	}
	b.delay = min(b.delay, b.limit)
	b.until = at.Add(b.delay)
}

// forgive makes the next start immediate, for an end that was ordered.
func (b *backoff) forgive() {
	b.began, b.delay, b.until = false, 0, time.Time{}
}
