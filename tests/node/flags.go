package node

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// config is what the flags say.
type config struct {
	kubeconfig, name, address, images, folder, hollowRange string
	port, capacity, workers                                int
	heartbeat, statusInterval                              time.Duration
	backoff, backoffLimit, firstProbe                      time.Duration
	recycle, untilStdinEnds                                bool
	labels                                                 map[string]string
	taints                                                 []v1.Taint
}

const usage = `node is a virtual kubelet for tests and demos: it runs pods as processes of this machine.

usage: node --kubeconfig FILE --name NAME --images FILE [FLAG…]

Each pod that is bound to the node gets an address of its own in 127/8 and a folder of its own. Its containers run
as processes there, by a table from image to command; containers of hollow images have no process. The standard output
has the line "ready" once the node is registered and knows its pods.

Annotations of a pod make it fail on cue:
  node.sandgate.test/image-pull: fail     no image can be pulled, until this goes or the image changes
  node.sandgate.test/start-delay: 3s      so long in ContainerCreating
  node.sandgate.test/ready-delay: 3s      so long from a container's start to its readiness
  node.sandgate.test/crash-after: 500ms   every run of a container ends so long after its start, with code 1
  node.sandgate.test/exit: "3"            … with this code; alone: at once
  node.sandgate.test/ready: "false"       not ready, whatever the probes say, while this is there
  node.sandgate.test/stop-delay: 2s       so long from the deletion to the signal
  node.sandgate.test/hollow: "true"       no processes, whatever the images are
  node.sandgate.test/commit: fail         no image can be made of its containers
  node.sandgate.test/commit-delay: 2s     so long until one is made

The node itself is lost by SIGUSR1, or by a line "cut" on its standard input (with --until-stdin-ends): it then neither
hears nor says anything, while its processes go on. SIGUSR2 or a line "heal" bring it back. Each is answered by a
line "cut" or "healed" on the standard output. A node that is killed takes its processes with it.

flags:
`

func parse(args []string, out io.Writer) (config, error) {
	var c config
	var labels, taints string
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = io.WriteString(out, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&c.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "the `file` that says where the API server is")
	flags.StringVar(&c.name, "name", "", "the node's `name`")
	flags.StringVar(&c.images, "images", "", "the table of images, a YAML or JSON `file`")
	flags.StringVar(&c.address, "address", "", "the node's own `address` (default one of 127/8 that nobody holds)")
	flags.IntVar(&c.port, "port", 10250, "the `port` for exec and logs; 0 takes a free one")
	flags.StringVar(&labels, "labels", "", "labels of the node, `key=value,…`")
	flags.StringVar(&taints, "taints", "", "taints of the node, `key=value:effect,…`")
	flags.IntVar(&c.capacity, "pods", 20_000, "how `many` pods the node takes")
	flags.StringVar(&c.folder, "folder", "", "where the node's `folder` is made (default the system's for temporary files)")
	flags.StringVar(&c.hollowRange, "hollow-range", "",
		"the addresses of hollow pods, a `prefix`; nobody else may use it (default blocks of 127.0/16, held by a lock)")
	flags.BoolVar(&c.recycle, "recycle", false, "give the last address that was freed to the next pod")
	flags.IntVar(&c.workers, "workers", 16, "how `many` requests to the API server at a time")
	flags.DurationVar(&c.heartbeat, "heartbeat", 2*time.Second, "`time` between renewals of the node's lease")
	flags.DurationVar(&c.statusInterval, "status-interval", 10*time.Second, "`time` between posts of the node's status")
	flags.DurationVar(&c.backoff, "backoff", 250*time.Millisecond, "`time` to the second restart of a container; it doubles from there")
	flags.DurationVar(&c.backoffLimit, "backoff-limit", 5*time.Second, "the longest `time` to a restart")
	flags.DurationVar(&c.firstProbe, "first-probe", 100*time.Millisecond,
		"`time` between tries of a readiness probe until it first succeeds, if that is shorter than its period; 0 for its period")
	flags.BoolVar(&c.untilStdinEnds, "until-stdin-ends", false, "end when the standard input does, and take orders from it")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if c.kubeconfig == "" || c.name == "" || c.images == "" {
		return c, errors.New("--kubeconfig, --name and --images are needed; --help says more")
	}
	var err error
	if c.labels, err = parseLabels(labels); err != nil {
		return c, err
	}
	c.taints, err = parseTaints(taints)
	return c, err
}

func parseLabels(text string) (map[string]string, error) {
	found := map[string]string{}
	for pair := range words(text) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("the label %q is not key=value", pair)
		}
		found[key] = value
	}
	return found, nil
}

func parseTaints(text string) ([]v1.Taint, error) {
	var found []v1.Taint
	for word := range words(text) {
		rest, effect, ok := strings.Cut(word, ":")
		if !ok {
			return nil, fmt.Errorf("the taint %q is not key=value:effect", word)
		}
		key, value, _ := strings.Cut(rest, "=")
		found = append(found, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
	}
	return found, nil
}

func words(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(text, ",") {
			if word != "" && !yield(word) {
				return
			}
		}
	}
}
