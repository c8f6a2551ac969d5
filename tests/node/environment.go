package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/client-go/kubernetes"
)

// facts are what a container's variables may refer to.
type facts struct {
	pod    *v1.Pod
	ip     string
	hostIP string
	node   string
}

// environment is the list of variables of a container: the image's, the pod's, and a few that every process gets.
func environment(ctx context.Context, client kubernetes.Interface, f facts, container *v1.Container, base image,
	folder, mark string,
) (map[string]string, error) {
	found := map[string]string{
		"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "HOME": folder, "HOSTNAME": f.pod.Name,
		"POD_IP": f.ip, "POD_NAME": f.pod.Name, "POD_NAMESPACE": f.pod.Namespace,
	}
	for _, name := range base.Inherit {
		if value, present := os.LookupEnv(name); present {
			found[name] = value
		}
	}
	for name, value := range base.Env {
		found[name] = expand(value, found)
	}
	for _, source := range container.EnvFrom {
		values, err := allOf(ctx, client, f.pod.Namespace, source)
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			found[source.Prefix+name] = value
		}
	}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			found[variable.Name] = expand(variable.Value, found)
			continue
		}
		value, present, err := valueFrom(ctx, client, f, variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if present {
			found[variable.Name] = value
		}
	}
	found[markVariable] = mark
	return found, nil
}

// listed is the form that a process is started with.
func listed(environment map[string]string) []string {
	list := make([]string, 0, len(environment))
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		list = append(list, name+"="+environment[name])
	}
	return list
}

// expand replaces $(NAME) as Kubernetes does: an unknown name stays as it is written, $$ is one dollar.
func expand(text string, environment map[string]string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at+1 == len(text) {
			return out.String() + text
		}
		out.WriteString(text[:at])
		text = text[at:]
		if text[1] == '$' {
			out.WriteByte('$')
			text = text[2:]
			continue
		}
		end := strings.IndexByte(text, ')')
		value, known := "", false
		if text[1] == '(' && end > 0 {
			value, known = environment[text[2:end]]
		}
		if known {
			out.WriteString(value)
			text = text[end+1:]
			continue
		}
		out.WriteByte('$')
		text = text[1:]
	}
}

func valueFrom(ctx context.Context, client kubernetes.Interface, f facts, source *v1.EnvVarSource) (string, bool, error) {
	switch {
	case source.FieldRef != nil:
		value, err := field(f, source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		values, err := secret(ctx, client, f.pod.Namespace, ref.Name)
		return pick(values, err, ref.Key, ref.Optional)
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		values, err := configMap(ctx, client, f.pod.Namespace, ref.Name)
		return pick(values, err, ref.Key, ref.Optional)
	default:
		return "", false, fmt.Errorf("this node knows fieldRef, secretKeyRef and configMapKeyRef only")
	}
}

func pick(values map[string]string, err error, key string, optional *bool) (string, bool, error) {
	value, present := values[key]
	if present {
		return value, true, nil
	}
	if optional != nil && *optional {
		return "", false, nil
	}
	if err == nil {
		err = fmt.Errorf("there is no key %q", key)
	}
	return "", false, err
}

func field(f facts, path string) (string, error) {
	if rest, is := strings.CutPrefix(path, "metadata.labels['"); is {
		return f.pod.Labels[strings.TrimSuffix(rest, "']")], nil
	}
	if rest, is := strings.CutPrefix(path, "metadata.annotations['"); is {
		return f.pod.Annotations[strings.TrimSuffix(rest, "']")], nil
	}
	switch path {
	case "metadata.name":
		return f.pod.Name, nil
	case "metadata.namespace":
		return f.pod.Namespace, nil
	case "metadata.uid":
		return string(f.pod.UID), nil
	case "spec.nodeName":
		return f.node, nil
	case "spec.serviceAccountName":
		return f.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return f.ip, nil
	case "status.hostIP", "status.hostIPs":
		return f.hostIP, nil
	default:
		return "", fmt.Errorf("unknown field %q", path)
	}
}

func allOf(ctx context.Context, client kubernetes.Interface, namespace string, source v1.EnvFromSource) (map[string]string, error) {
	var values map[string]string
	var err error
	var optional *bool
	switch {
	case source.SecretRef != nil:
		values, err = secret(ctx, client, namespace, source.SecretRef.Name)
		optional = source.SecretRef.Optional
	case source.ConfigMapRef != nil:
		values, err = configMap(ctx, client, namespace, source.ConfigMapRef.Name)
		optional = source.ConfigMapRef.Optional
	}
	if err != nil && optional != nil && *optional {
		return nil, nil
	}
	return values, err
}

func secret(ctx context.Context, client kubernetes.Interface, namespace, name string) (map[string]string, error) {
	object, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(object.Data))
	for key, value := range object.Data {
		values[key] = string(value)
	}
	return values, nil
}

func configMap(ctx context.Context, client kubernetes.Interface, namespace, name string) (map[string]string, error) {
	object, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	values := maps.Clone(object.Data)
	if values == nil {
		values = map[string]string{}
	}
	for key, value := range object.BinaryData {
		values[key] = string(value)
	}
	return values, nil
}
