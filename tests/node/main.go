package node

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// Main runs the node with the arguments after the program's name and gives the exit status.
func Main(args []string) int {
	config, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 2
	}
	if err := serve(config); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	return 0
}

func serve(config config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	table, err := loadImages(config.images)
	if err != nil {
		return err
	}
	hollow, err := newHollowPlaces(config.hollowRange, config.recycle)
	if err != nil {
		return err
	}
	n := &Node{
		config: config, context: ctx, images: table, mark: newMark(), link: newLink(), launcher: newLauncher(),
		places: newPlaces(config.recycle), hollowPlaces: hollow, address: config.address,
		runners: map[types.UID]*runner{}, hollow: map[types.UID]netip.Addr{}, written: map[types.UID]uint64{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 5*time.Second)),
	}
	if err := n.connect(); err != nil {
		return err
	}
	if n.address == "" {
		if n.own, err = n.places.take(); err != nil {
			return err
		}
		n.address = n.own.ip.String()
	}
	if n.folder, err = os.MkdirTemp(config.folder, "sandgate-node-"); err != nil {
		return err
	}
	dismiss, dismissed, err := post(n.mark, n.folder)
	if err != nil {
		return fmt.Errorf("the warden: %w", err)
	}
	defer func() {
		_ = dismiss.Close()
		_ = dismissed()
	}()
	return n.run(ctx, end)
}

// connect makes the client: protocol buffers, and no limit of its own.
func (n *Node) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", n.config.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.UserAgent = "sandgate-node/" + n.config.name
	n.link.through(config)
	n.client, err = kubernetes.NewForConfig(config)
	return err
}

func (n *Node) run(ctx context.Context, end context.CancelFunc) error {
	listener, err := net.Listen("tcp4", net.JoinHostPort(n.address, strconv.Itoa(n.config.port)))
	if err != nil {
		return err
	}
	n.port = listener.Addr().(*net.TCPAddr).Port
	server, err := n.server()
	if err != nil {
		return err
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	defer func() { _ = server.Close() }()
	uid, err := n.register()
	if err != nil {
		return err
	}
	healed := make(chan struct{}, 1)
	go n.beat(uid, healed)
	if err := n.follow(); err != nil {
		return err
	}
	n.adoptAll()
	go n.control(end, healed)
	fmt.Println("ready")
	go func() {
		<-ctx.Done()
		n.queue.ShutDown()
	}()
	n.work(n.config.workers)
	n.mutex.Lock()
	for _, found := range n.runners {
		found.vanish()
	}
	n.mutex.Unlock()
	n.lives.Wait()
	return nil
}

// control obeys signals and the lines of the standard input, and says on the standard output what it did.
func (n *Node) control(end context.CancelFunc, healed chan<- struct{}) {
	cut := func() {
		n.link.cut()
		fmt.Println("cut")
	}
	heal := func() {
		n.link.heal()
		select {
		case healed <- struct{}{}:
		default:
		}
		fmt.Println("healed")
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	lines := make(chan string)
	if n.config.untilStdinEnds {
		go read(os.Stdin, lines)
	}
	for {
		select {
		case which := <-signals:
			if which == syscall.SIGUSR1 {
				cut()
			} else {
				heal()
			}
		case line, open := <-lines:
			switch {
			case !open:
				end()
				return
			case line == "cut":
				cut()
			case line == "heal":
				heal()
			default:
				fmt.Fprintf(os.Stderr, "node: %q is neither cut nor heal\n", line)
			}
		case <-n.context.Done():
			return
		}
	}
}

func read(input io.Reader, lines chan<- string) {
	defer close(lines)
	for scanner := bufio.NewScanner(input); scanner.Scan(); {
		lines <- scanner.Text()
	}
}
