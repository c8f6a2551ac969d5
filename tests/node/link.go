package node

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// link is the node's network to the API server. While it is cut, connections are gone and requests are held, as by a
// network that drops packets: heartbeats and status stop, deletions are not seen, processes go on. When it is healed,
// what was held goes out at once.
type link struct {
	mutex sync.Mutex
	// Closed while the link is whole.
	whole chan struct{}
	conns map[net.Conn]struct{}
}

func newLink() *link {
	l := &link{whole: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(l.whole)
	return l
}

// through makes every request of a client go over the link.
func (l *link) through(config *rest.Config) {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mutex.Lock()
		l.conns[conn] = struct{}{}
		l.mutex.Unlock()
		return &tracked{Conn: conn, link: l}, nil
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &held{link: l, next: next} })
}

// cut says false if the link was cut already; heal likewise.
func (l *link) cut() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.isCut() {
		return false
	}
	l.whole = make(chan struct{})
	for conn := range l.conns {
		_ = conn.Close()
	}
	return true
}

func (l *link) heal() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.isCut() {
		return false
	}
	close(l.whole)
	return true
}

func (l *link) isCut() bool {
	select {
	case <-l.whole:
		return false
	default:
		return true
	}
}

func (l *link) down() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.isCut()
}

// wait returns once the link is whole.
func (l *link) wait(ctx context.Context) error {
	for {
		l.mutex.Lock()
		whole, cut := l.whole, l.isCut()
		l.mutex.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-whole:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type tracked struct {
	net.Conn
	link *link
}

func (t *tracked) Close() error {
	t.link.mutex.Lock()
	delete(t.link.conns, t.Conn)
	t.link.mutex.Unlock()
	return t.Conn.Close()
}

type held struct {
	link *link
	next http.RoundTripper
}

func (h *held) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := h.link.wait(request.Context()); err != nil {
		return nil, err
	}
	return h.next.RoundTrip(request)
}
