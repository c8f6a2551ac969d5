package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// image is what stands behind an image's name: the command of its processes, or nothing at all.
type image struct {
	// Command and Args are the image's entry point and its default arguments. A pod's `command` replaces both,
	// a pod's `args` the second. An argument that starts with `./` or `../` is a path beside the table.
	Command []string          `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Variables of the node itself that the processes get, as far as it has them.
	Inherit []string `json:"inherit,omitempty"`
	// Hollow containers have no process.
	Hollow bool `json:"hollow,omitempty"`
	// Containers of this image are played by the node: they make images of containers, as OpenSandbox's
	// image-committer does.
	Commits bool `json:"commits,omitempty"`
	// What was in the folder of the container that the image was made of, by the names of the files.
	files map[string]file
}

// images is the table from names to images. What is not in it cannot be pulled.
type images map[string]image

// loadImages reads a table in YAML or JSON: `images:` and under it one entry for each name.
func loadImages(path string) (images, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the table of images: %w", err)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("the table of images: %w", err)
	}
	var file struct {
		Images images `json:"images"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, fmt.Errorf("the table of images, %s: %w", path, err)
	}
	for _, entry := range file.Images {
		beside(folder, entry.Command)
		beside(folder, entry.Args)
	}
	return file.Images, nil
}

func beside(folder string, arguments []string) {
	for i, argument := range arguments {
		if strings.HasPrefix(argument, "./") || strings.HasPrefix(argument, "../") {
			arguments[i] = filepath.Join(folder, argument)
		}
	}
}

// find looks for the name as it is written, then for the name without digest and tag.
func (t images) find(name string) (image, bool) {
	if found, ok := t[name]; ok {
		return found, true
	}
	found, ok := t[repository(name)]
	return found, ok
}

// repository is the name without its digest and tag. A colon before the last slash belongs to a port.
func repository(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name = name[:colon]
	}
	return name
}

// imageID names the content of an image. Nothing is pulled, so equal names have equal content.
func imageID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return repository(name) + "@sha256:" + hex.EncodeToString(sum[:])
}

// arguments are the words to run for a container: the image's, unless the pod has its own.
func (i image) arguments(command, args []string) []string {
	switch {
	case len(command) > 0:
		return append(append([]string{}, command...), args...)
	case len(args) > 0:
		return append(append([]string{}, i.Command...), args...)
	default:
		return append(append([]string{}, i.Command...), i.Args...)
	}
}
