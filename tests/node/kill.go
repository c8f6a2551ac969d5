package node

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// In a container process 1 is the container's own. Here it is this machine's. A command that aims a signal at it is
// therefore never run: exec gives the signal to the container's processes itself, and everything else refuses it.

// aim is what a command does to process 1.
type aim int

const (
	// The command may be run.
	aimsElsewhere aim = iota
	// It sends process 1 one of the signals that end a container.
	endsFirst
	// It signals process 1 in a way that cannot be played, or every process that there is.
	endangers
)

// shells are what takes a script after -c.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh"}

// wrappers run the rest of their words.
var wrappers = []string{"exec", "command", "builtin", "env", "nohup", "sudo", "setsid", "busybox", "toybox", "time", "nice"}

// fatal are the signals that end a container, by the names and numbers that kill takes.
var fatal = map[string]unix.Signal{
	"TERM": unix.SIGTERM, "15": unix.SIGTERM, "KILL": unix.SIGKILL, "9": unix.SIGKILL, "INT": unix.SIGTERM,
	"2": unix.SIGTERM, "QUIT": unix.SIGTERM, "3": unix.SIGTERM, "HUP": unix.SIGTERM, "1": unix.SIGTERM,
}

// aimOf says what a command does to process 1, and with which signal.
func aimOf(words []string) (aim, unix.Signal) {
	return aimWithin(words, 0)
}

func aimWithin(words []string, depth int) (aim, unix.Signal) {
	for len(words) > 0 && (wraps(words[0]) || strings.Contains(words[0], "=")) {
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return aimsElsewhere, 0
	}
	name := filepath.Base(words[0])
	switch {
	case name == "kill":
		return aimOfKill(words[1:])
	case slices.Contains([]string{"killall", "killall5", "pkill", "reboot", "shutdown", "halt", "poweroff", "init", "telinit"}, name):
		return endangers, 0
	case slices.Contains(shells, name):
		for i, word := range words[1:] {
			if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.HasSuffix(word, "c") && i+2 < len(words) {
				if depth > 3 {
					return endangers, 0
				}
				return aimOfScript(words[i+2], depth)
			}
		}
	}
	return aimsElsewhere, 0
}

func wraps(word string) bool { return slices.Contains(wrappers, filepath.Base(word)) }

// aimOfScript looks at every simple command of a script. It takes no notice of what is quoted: rather too many
// scripts are kept from running than one too few.
func aimOfScript(script string, depth int) (aim, unix.Signal) {
	simple := strings.FieldsFunc(script, func(r rune) bool { return strings.ContainsRune(";&|\n(){}`$'\"", r) })
	found, signal := aimsElsewhere, unix.Signal(0)
	for _, part := range simple {
		words := strings.Fields(part)
		for len(words) > 0 && slices.Contains([]string{"if", "then", "else", "do", "while", "until", "!", "elif"}, words[0]) {
			words = words[1:]
		}
		switch what, which := aimWithin(words, depth+1); {
		case what == endangers:
			return endangers, 0
		case what == endsFirst:
			found, signal = what, which
		}
	}
	return found, signal
}

// aimOfKill reads the words after `kill`.
func aimOfKill(words []string) (aim, unix.Signal) {
	signal, known := unix.SIGTERM, true
	named := func(name string) {
		name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
		signal, known = fatal[name]
	}
	rest := words
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		word := rest[0]
		rest = rest[1:]
		switch {
		case word == "--":
			return aimAt(rest, signal, known)
		case word == "-s" || word == "-n" || word == "--signal":
			if len(rest) == 0 {
				return aimsElsewhere, 0
			}
			named(rest[0])
			rest = rest[1:]
		case strings.HasPrefix(word, "--signal="):
			named(strings.TrimPrefix(word, "--signal="))
		case word == "-l" || word == "-L" || word == "--list" || word == "--table":
			return aimsElsewhere, 0
		case len(rest) == 0 && strings.TrimLeft(strings.TrimPrefix(word, "-"), "0") == "1":
			// Every process, for some kinds of kill.
			return endangers, 0
		default:
			named(strings.TrimPrefix(word, "-"))
		}
	}
	return aimAt(rest, signal, known)
}

func aimAt(targets []string, signal unix.Signal, known bool) (aim, unix.Signal) {
	found := aimsElsewhere
	for _, target := range targets {
		bare := strings.TrimLeft(strings.TrimPrefix(target, "-"), "0")
		switch {
		case target == "0" || target == "-0":
			// The process group of kill itself.
		case strings.HasPrefix(target, "-") && bare == "1":
			return endangers, 0
		case bare == "1" && !known:
			return endangers, 0
		case bare == "1":
			found = endsFirst
		}
	}
	if found == aimsElsewhere {
		return found, 0
	}
	return found, signal
}

// endFirst gives the signal that a command in a container aims at process 1 to the container's processes. Whether they
// end is theirs to say, as in a container; what ends starts again as the pod's restart policy wants it.
func (r *runner) endFirst(container string, signal unix.Signal) {
	given := make(chan struct{})
	r.tell(func() {
		defer close(given)
		for _, s := range r.slots {
			if s.spec.Name != container || s.run == nil {
				continue
			}
			if signal == unix.SIGKILL {
				s.run.process.kill()
			} else {
				s.run.process.term()
			}
		}
	})
	select {
	case <-given:
	case <-r.done:
	}
}
