// What Envoy Gateway makes of the recipe: its own translators, run once over the files, without a cluster.
//
//	translate VALUES FILE… >translated.json
//
// VALUES is for its Helm chart and says what is enabled. Prints the status of every policy, what its proxies get by xDS, and
// the proxies' Deployment with the bootstrap config in it. Built inside a copy of Envoy Gateway's module (see `translate`),
// because the translators are internal to it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"github.com/envoyproxy/gateway/api/v1alpha1/validation"
	"github.com/envoyproxy/gateway/internal/gatewayapi"
	"github.com/envoyproxy/gateway/internal/gatewayapi/resource"
	"github.com/envoyproxy/gateway/internal/infrastructure/kubernetes/proxy"
	"github.com/envoyproxy/gateway/internal/ir"
	"github.com/envoyproxy/gateway/internal/logging"
	"github.com/envoyproxy/gateway/internal/xds/bootstrap"
	"github.com/envoyproxy/gateway/internal/xds/translator"
)

const namespace = "envoy-gateway-system"

// infra is what the renderer of the proxies' objects asks the controller for.
type infra struct{ config *egv1a1.EnvoyGateway }

func (i infra) GetControllerNamespace() string          { return namespace }
func (i infra) GetDNSDomain() string                    { return "cluster.local" }
func (i infra) GetEnvoyGateway() *egv1a1.EnvoyGateway   { return i.config }
func (i infra) GetResourceNamespace(_ *ir.Infra) string { return namespace }
func (i infra) GetOwnerReferenceUID(context.Context, *ir.Infra) (map[string]types.UID, error) {
	return map[string]types.UID{resource.KindGatewayClass: "0"}, nil
}

func main() {
	if err := translate(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func translate(values string, files []string) error {
	config, err := enabled(values)
	if err != nil {
		return err
	}
	resources, err := load(files)
	if err != nil {
		return err
	}
	if err := validation.ValidateEnvoyProxy(resources.EnvoyProxyForGatewayClass); err != nil {
		return err
	}
	if err := bootstrap.Validate(resources.EnvoyProxyForGatewayClass.Spec.Bootstrap); err != nil {
		return err
	}
	ctx, quiet := context.Background(), logging.DefaultLogger(io.Discard, egv1a1.LogLevelInfo)
	gateways := &gatewayapi.Translator{
		GatewayControllerName:   string(resources.GatewayClass.Spec.ControllerName),
		GatewayClassName:        gwapiv1.ObjectName(resources.GatewayClass.Name),
		EnvoyPatchPolicyEnabled: config.ExtensionAPIs != nil && config.ExtensionAPIs.EnableEnvoyPatchPolicy,
		ControllerNamespace:     namespace,
		Logger:                  quiet,
	}
	made, err := gateways.Translate(ctx, resources)
	if err != nil {
		return err
	}
	if len(made.XdsIR) != 1 || len(made.InfraIR) != 1 {
		return fmt.Errorf("one Gateway was expected, there are %d", len(made.XdsIR))
	}
	out := map[string]any{
		"gateways":               made.Gateways,
		"httpRoutes":             made.HTTPRoutes,
		"clientTrafficPolicies":  made.ClientTrafficPolicies,
		"envoyExtensionPolicies": made.EnvoyExtensionPolicies,
		"securityPolicies":       made.SecurityPolicies,
	}
	for _, xds := range made.XdsIR {
		proxies := &translator.Translator{
			ControllerNamespace: namespace,
			FilterOrder:         xds.FilterOrder,
			RuntimeFlags:        config.RuntimeFlags,
			Logger:              quiet,
		}
		table, err := proxies.Translate(ctx, xds)
		if err != nil {
			return err
		}
		out["envoyPatchPolicies"] = table.EnvoyPatchPolicyStatuses
		discovered := map[string][]json.RawMessage{}
		for kind, all := range table.XdsResources {
			if kind == resourcev3.SecretType {
				continue // Keys do not belong into a file.
			}
			for _, one := range all {
				text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(one)
				if err != nil {
					return err
				}
				short := kind[strings.LastIndex(kind, ".")+1:]
				discovered[short] = append(discovered[short], text)
			}
		}
		out["xds"] = discovered
	}
	for _, wanted := range made.InfraIR {
		render, err := proxy.NewResourceRender(ctx, infra{config}, wanted)
		if err != nil {
			return err
		}
		if out["deployment"], err = render.Deployment(); err != nil {
			return err
		}
		if out["serviceAccount"], err = render.ServiceAccount(); err != nil {
			return err
		}
	}
	// protojson puts spaces in at random; this makes one text of one translation.
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(text))
	return err
}

// enabled reads the controller's config as the Helm chart passes it on.
func enabled(values string) (*egv1a1.EnvoyGateway, error) {
	text, err := os.ReadFile(values)
	if err != nil {
		return nil, err
	}
	var chart struct {
		Config struct {
			EnvoyGateway egv1a1.EnvoyGateway `json:"envoyGateway"`
		} `json:"config"`
	}
	if err := yaml.UnmarshalStrict(text, &chart); err != nil {
		return nil, fmt.Errorf("%s: %w", values, err)
	}
	config := &chart.Config.EnvoyGateway
	config.SetEnvoyGatewayDefaults()
	return config, nil
}

func load(files []string) (*resource.Resources, error) {
	var all bytes.Buffer
	var slices []*discoveryv1.EndpointSlice
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		// The loader knows no endpoints: a controller sees them in the cluster.
		err = resource.IterYAMLBytes(text, func(document []byte) error {
			slice := &discoveryv1.EndpointSlice{}
			if err := yaml.Unmarshal(document, slice); err == nil && slice.Kind == "EndpointSlice" {
				slices = append(slices, slice)
				return nil
			}
			all.WriteString("---\n")
			all.Write(document)
			all.WriteString("\n")
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	resources, err := resource.LoadResourcesFromYAMLBytes(all.Bytes(), true, nil)
	if err != nil {
		return nil, err
	}
	resources.EndpointSlices = slices
	if resources.GatewayClass == nil || resources.EnvoyProxyForGatewayClass == nil {
		return nil, fmt.Errorf("a GatewayClass and an EnvoyProxy are needed")
	}
	// The proxies' certificate, which the controller makes for itself; asked for always, used for rate limits and Wasm only.
	resources.Secrets = append(resources.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "envoy"}})
	return resources, nil
}
