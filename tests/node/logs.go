package node

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// serveLogs answers `kubectl logs`: the file that a run's output went to, with tailLines, limitBytes, previous and
// follow. There are no times in it.
func (n *Node) serveLogs(w http.ResponseWriter, request *http.Request) {
	found, err := n.find(request.PathValue("namespace"), request.PathValue("pod"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	container := request.PathValue("container")
	door, err := found.enter(container)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	run := door.restarts
	if request.FormValue("previous") == "true" {
		run--
	}
	file, err := os.Open(found.folder.log(container, run))
	if err != nil {
		http.Error(w, "there are no logs of that run", http.StatusBadRequest)
		return
	}
	defer func() { _ = file.Close() }()
	if lines, err := strconv.Atoi(request.FormValue("tailLines")); err == nil {
		if err := tail(file, lines); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	var source io.Reader = file
	if limit, err := strconv.ParseInt(request.FormValue("limitBytes"), 10, 64); err == nil {
		source = io.LimitReader(file, limit)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := io.Copy(w, source); err != nil || request.FormValue("follow") != "true" {
		return
	}
	for flush := http.NewResponseController(w); flush.Flush() == nil; {
		// Asked before the read: what a process wrote last is read after its end is known.
		now, err := found.enter(container)
		over := err != nil || !now.running || now.restarts != run
		if _, err := io.Copy(w, source); err != nil || over {
			return
		}
		select {
		case <-request.Context().Done():
			return
		case <-found.done:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tail moves to the beginning of the last so many lines.
func tail(file *os.File, lines int) error {
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for range lines {
		if at = bytes.LastIndexByte(text[:at], '\n'); at < 0 {
			break
		}
	}
	if lines <= 0 {
		at = len(text) - 1
	}
	_, err = file.Seek(int64(at+1), io.SeekStart)
	return err
}
