package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"k8s.io/client-go/kubernetes"
)

// layout is where a pod's files are: everything below one folder, which goes with the pod.
type layout struct {
	root string
}

func (l layout) volume(name string) string    { return filepath.Join(l.root, "volumes", name) }
func (l layout) container(name string) string { return filepath.Join(l.root, "containers", name) }
func (l layout) log(name string, run int32) string {
	return filepath.Join(l.root, "logs", fmt.Sprintf("%s.%d", name, run))
}

// fill makes the folders of the volumes. A secret or config map volume has its files; any other kind is an empty
// folder.
func (l layout) fill(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) error {
	if err := os.MkdirAll(filepath.Join(l.root, "logs"), 0o755); err != nil {
		return err
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		folder := l.volume(volume.Name)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
		values, items, err := contents(ctx, client, pod.Namespace, volume)
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		if err := write(folder, values, items); err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

func contents(ctx context.Context, client kubernetes.Interface, namespace string, volume *v1.Volume) (
	values map[string]string, items []v1.KeyToPath, err error,
) {
	var optional *bool
	switch {
	case volume.Secret != nil:
		values, err = secret(ctx, client, namespace, volume.Secret.SecretName)
		items, optional = volume.Secret.Items, volume.Secret.Optional
	case volume.ConfigMap != nil:
		values, err = configMap(ctx, client, namespace, volume.ConfigMap.Name)
		items, optional = volume.ConfigMap.Items, volume.ConfigMap.Optional
	}
	if err != nil && optional != nil && *optional {
		return nil, nil, nil
	}
	return values, items, err
}

func write(folder string, values map[string]string, items []v1.KeyToPath) error {
	paths := map[string]string{}
	for key := range values {
		if len(items) == 0 {
			paths[key] = key
		}
	}
	for _, item := range items {
		paths[item.Key] = item.Path
	}
	for key, path := range paths {
		target := filepath.Join(folder, filepath.Join("/", path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(values[key]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// enter makes a container's working folder. Nothing is mounted: each mount path is a link below the working folder,
// so `/data` of the pod is `./data` of the process.
func (l layout) enter(container *v1.Container) (string, error) {
	folder := l.container(container.Name)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	for _, mount := range container.VolumeMounts {
		at := filepath.Join(folder, filepath.Join("/", mount.MountPath))
		if at == folder {
			continue
		}
		target := l.volume(mount.Name)
		if mount.SubPath != "" {
			target = filepath.Join(target, filepath.Join("/", strings.TrimSpace(mount.SubPath)))
			if err := os.MkdirAll(target, 0o777); err != nil {
				return "", err
			}
		}
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return "", err
		}
		if err := os.Symlink(target, at); err != nil {
			return "", err
		}
	}
	return folder, nil
}
