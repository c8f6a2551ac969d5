{{/* The release's name, unless it is told: `helm install sandgate` makes a Deployment `sandgate`. */}}
{{- define "sandgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "sandgate.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Of the gateway's pods; the pod of `helm test` has another component, so that no Service leads to it. */}}
{{- define "sandgate.gatewaySelector" -}}
{{ include "sandgate.selector" . }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "sandgate.labels" -}}
{{ include "sandgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sandgate.serviceAccount" -}}
{{- default (include "sandgate.fullname" .) .Values.serviceAccount.name -}}
{{- end }}

{{/* Of a dict with `image` (one of the values) and `root`. */}}
{{- define "sandgate.imageOf" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end }}

{{- define "sandgate.image" -}}
{{- include "sandgate.imageOf" (dict "image" .Values.image "root" .) -}}
{{- end }}

{{- define "sandgate.servicePort" -}}
{{- default (ternary 443 80 (gt (len .Values.tls.certificates) 0)) .Values.service.port -}}
{{- end }}

{{/* What two values say that cannot both be. */}}
{{- define "sandgate.check" -}}
{{- if and .Values.sigAlias.enabled .Values.tls.certificates -}}
{{- fail "sigAlias and tls.certificates exclude each other: SIG clients speak plain HTTP, and the gateway's listener speaks TLS" -}}
{{- end -}}
{{- range .Values.providers -}}
{{- if and (eq .kind "opensandbox") (not (index . "any-address")) (not (index $.Values.gateway "pod-ranges")) -}}
{{- fail "the provider opensandbox needs gateway.pod-ranges: tenants write the addresses of its sandboxes" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.push.enabled (not .Values.push.keys) (not .Values.push.tokenReview) (not .Values.push.tls.clientCa) -}}
{{- fail "push needs a way to tell who pushes: give push.keys, push.tokenReview or push.tls.clientCa" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne .Values.kind "Deployment") -}}
{{- fail "autoscaling needs kind: Deployment" -}}
{{- end -}}
{{- with .Values.operator.lease -}}
{{- if or (ge (int .renewDeadlineSeconds) (int .durationSeconds)) (gt (mul 2 .retryPeriodSeconds) (int .renewDeadlineSeconds)) -}}
{{- fail "operator.lease: renewDeadlineSeconds has to be less than durationSeconds, and retryPeriodSeconds at most half of renewDeadlineSeconds" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.manager.address .Values.manager.enabled -}}
{{- fail "manager.address is for a manager that is elsewhere, and manager.enabled for one of this release: leave one of the two out" -}}
{{- end -}}
{{- if and .Values.operator.enabled (include "sandgate.operatesEnvironments" .) (not .Values.operator.localClusterId) -}}
{{- fail "operator.controllers has one of sandboxenv, sandboxpool and pooladoption, which needs operator.localClusterId: the name of this cluster in environments. Only its segment is written" -}}
{{- end -}}
{{- if and .Values.manager.enabled .Values.manager.environments.enabled (not (include "sandgate.managerCluster" .)) -}}
{{- fail "manager.environments.enabled needs manager.localClusterId or operator.localClusterId: the name of this cluster in environments" -}}
{{- end -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- end }}

{{/* The config of `sandgate run`. Files are where sandgate.volumes puts them. */}}
{{- define "sandgate.config" -}}
{{- $kubernetes := dict "providers" .Values.providers -}}
{{- with .Values.openAfterSeconds }}{{ $_ := set $kubernetes "open-after-seconds" (int .) }}{{ end -}}
{{- $gateway := merge (dict "kubernetes" $kubernetes) .Values.gateway -}}
{{- if .Values.push.enabled }}{{ $_ := set $gateway "refresh" (include "sandgate.refresh" . | fromYaml) }}{{ end -}}
{{- $auth := include "sandgate.auth" . | fromYaml -}}
{{- if $auth }}{{ $_ := set $gateway "auth" $auth }}{{ end -}}
{{- $config := dict "gateway" $gateway -}}
{{- if or .Values.manager.enabled .Values.manager.address }}{{ $_ := set $config "manager" (include "sandgate.manager" . | fromYaml) }}{{ end -}}
{{- with .Values.filter }}{{ $_ := set $config "filter" . }}{{ end -}}
{{- with .Values.cluster }}{{ $_ := set $config "cluster" . }}{{ end -}}
{{- with .Values.listen }}{{ $_ := set $config "listen" . }}{{ end -}}
{{- with .Values.timeouts }}{{ $_ := set $config "timeouts" . }}{{ end -}}
{{- if .Values.tls.certificates -}}
{{- $certificates := list -}}
{{- range .Values.tls.certificates -}}
{{- $folder := printf "/etc/sandgate/tls/%s" .secret -}}
{{- $certificate := dict "certificate" (printf "%s/tls.crt" $folder) "key" (printf "%s/tls.key" $folder) -}}
{{- with .domains }}{{ $_ := set $certificate "domains" . }}{{ end -}}
{{- $certificates = append $certificates $certificate -}}
{{- end -}}
{{- $tls := dict "certificates" $certificates -}}
{{- if .Values.tls.clientCa }}{{ $_ := set $tls "client-ca" "/etc/sandgate/client-ca/ca.crt" }}{{ end -}}
{{- with .Values.tls.minVersion }}{{ $_ := set $tls "min-version" . }}{{ end -}}
{{- $_ := set $config "tls" $tls -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{/* The section gateway.refresh. */}}
{{- define "sandgate.refresh" -}}
{{- $refresh := merge (dict "address" .Values.address "port" 7789) .Values.push.options -}}
{{- with .Values.push.provider }}{{ $_ := set $refresh "provider" . }}{{ end -}}
{{- with .Values.push.keys -}}
{{- $keys := list -}}
{{- range . }}{{ $keys = append $keys (dict "id" .id "file" (printf "/etc/sandgate/push/keys/%s" .id)) }}{{ end -}}
{{- $_ := set $refresh "hmac" (dict "keys" $keys) -}}
{{- end -}}
{{- with .Values.push.tokenReview }}{{ $_ := set $refresh "token-review" . }}{{ end -}}
{{- with .Values.push.tls -}}
{{- $tls := dict "certificate" "/etc/sandgate/push/tls/tls.crt" "key" "/etc/sandgate/push/tls/tls.key" -}}
{{- if .clientCa }}{{ $_ := set $tls "client-ca" "/etc/sandgate/push/client-ca/ca.crt" }}{{ end -}}
{{- with .clientNames }}{{ $_ := set $tls "client-names" . }}{{ end -}}
{{- $_ := set $refresh "tls" $tls -}}
{{- end -}}
{{ toYaml $refresh }}
{{- end }}

{{/* The section gateway.auth, empty if nothing is given. */}}
{{- define "sandgate.auth" -}}
{{- $auth := dict -}}
{{- range $section, $keys := include "sandgate.authKeys" . | fromYaml -}}
{{- $files := list -}}
{{- range $keys }}{{ $files = append $files (printf "/etc/sandgate/auth/%s/%s/%s" $section .secret .key) }}{{ end -}}
{{- if $files }}{{ $_ := set $auth $section (dict "files" $files) }}{{ end -}}
{{- end -}}
{{- if .Values.auth.trafficJwt -}}
{{- $jwt := deepCopy .Values.auth.trafficJwt -}}
{{- if .Values.auth.trafficJwtCa }}{{ $_ := set $jwt "ca-file" "/etc/sandgate/auth/traffic-jwt/ca.crt" }}{{ end -}}
{{- $_ := set $auth "traffic-jwt" $jwt -}}
{{- end -}}
{{- with .Values.auth.tokenReview }}{{ $_ := set $auth "token-review" . }}{{ end -}}
{{ toYaml $auth }}
{{- end }}

{{/* The Secrets with keys, by the section that they are for. */}}
{{- define "sandgate.authKeys" -}}
{{- with .Values.auth -}}
{{ toYaml (dict "secure-access-keys" .secureAccessKeys "scoped-token" .scopedToken "bearer" .bearer) }}
{{- end -}}
{{- end }}

{{/* One volume for the config and every file it names, so that all of them are swapped at once when one changes. */}}
{{- define "sandgate.volumes" -}}
- name: config
  projected:
    # 0440, for the pod's group.
    defaultMode: 288
    sources:
      - configMap:
          name: {{ include "sandgate.fullname" . }}
      {{- range .Values.tls.certificates }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: tls.crt, path: tls/{{ .secret }}/tls.crt }
            - { key: tls.key, path: tls/{{ .secret }}/tls.key }
      {{- end }}
      {{- with .Values.tls.clientCa }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: {{ default "ca.crt" .key }}, path: client-ca/ca.crt }
      {{- end }}
      {{- with .Values.manager.tls.secret }}
      - secret:
          name: {{ . }}
          items:
            - { key: ca.crt, path: manager/ca.crt }
      {{- end }}
      {{- if .Values.push.enabled }}
      {{- range .Values.push.keys }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: {{ .key }}, path: push/keys/{{ .id }} }
      {{- end }}
      {{- with .Values.push.tls }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: tls.crt, path: push/tls/tls.crt }
            - { key: tls.key, path: push/tls/tls.key }
      {{- with .clientCa }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: {{ default "ca.crt" .key }}, path: push/client-ca/ca.crt }
      {{- end }}
      {{- end }}
      {{- end }}
      {{- range $section, $keys := include "sandgate.authKeys" . | fromYaml }}
      {{- range $keys }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: {{ .key }}, path: auth/{{ $section }}/{{ .secret }}/{{ .key }} }
      {{- end }}
      {{- end }}
      {{- with .Values.auth.trafficJwtCa }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: {{ default "ca.crt" .key }}, path: auth/traffic-jwt/ca.crt }
      {{- end }}
# Envoy's config goes here, for nobody else to read: the root is read-only.
- name: tmp
  emptyDir:
    sizeLimit: 16Mi
{{- end }}

{{- define "sandgate.mounts" -}}
- { name: config, mountPath: /etc/sandgate, readOnly: true }
- { name: tmp, mountPath: /tmp }
{{- end }}

{{- define "sandgate.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "sandgate.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
privileged: false
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "sandgate.operatorName" -}}
{{ include "sandgate.fullname" . }}-operator
{{- end }}

{{/* The operator is another application than the gateway: no Service, policy or budget of one selects pods of the other. */}}
{{- define "sandgate.operatorSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sandgate.operatorLabels" -}}
{{ include "sandgate.operatorSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sandgate.operatorAccount" -}}
{{- default (include "sandgate.operatorName" .) .Values.operator.serviceAccount.name -}}
{{- end }}

{{/* A rule of egress. */}}
{{- define "sandgate.toApiServer" -}}
- to:
    {{- range .Values.networkPolicy.apiServer.cidrs }}
    - ipBlock:
        cidr: {{ . | quote }}
        {{- if eq . "0.0.0.0/0" }}
        # Where clouds keep the credentials of the node.
        except: [169.254.0.0/16]
        {{- end }}
    {{- end }}
  ports:
    {{- range .Values.networkPolicy.apiServer.ports }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
{{- end }}

{{- define "sandgate.managerName" -}}
{{ include "sandgate.fullname" . }}-manager
{{- end }}

{{/* Another application than the gateway and the operator, for the same reason. */}}
{{- define "sandgate.managerSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}-manager
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sandgate.managerLabels" -}}
{{ include "sandgate.managerSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sandgate.managerAccount" -}}
{{- default (include "sandgate.managerName" .) .Values.manager.serviceAccount.name -}}
{{- end }}

{{- define "sandgate.managerSubjects" -}}
- kind: ServiceAccount
  name: {{ include "sandgate.managerAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "sandgate.managerPort" -}}
{{- ternary 443 80 (not (empty .Values.manager.tls.secret)) -}}
{{- end }}

{{/* The section `manager` of the gateway's config: the manager of this release, or the one at manager.address. */}}
{{- define "sandgate.manager" -}}
{{- $own := printf "%s.%s.svc:%s" (include "sandgate.managerName" .) .Release.Namespace (include "sandgate.managerPort" .) -}}
address: {{ default $own .Values.manager.address | quote }}
{{- if .Values.manager.tls.secret }}
tls:
  ca: /etc/sandgate/manager/ca.crt
{{- end }}
{{- end }}

{{/* Where sandboxes are, as peers of a rule of egress. */}}
{{- define "sandgate.toSandboxes" -}}
{{- if .Values.networkPolicy.sandboxes }}
{{- toYaml .Values.networkPolicy.sandboxes }}
{{- else if index .Values.gateway "pod-ranges" }}
{{- range index .Values.gateway "pod-ranges" }}
- ipBlock: { cidr: {{ . | quote }} }
{{- end }}
{{- else -}}
- namespaceSelector: {}
{{- end }}
{{- end }}

{{- define "sandgate.operatorSubjects" -}}
- kind: ServiceAccount
  name: {{ include "sandgate.operatorAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* Whether the operator looks after OpenKruise's kinds; not empty if so. */}}
{{- define "sandgate.operatesKruise" -}}
{{- $chosen := .Values.operator.controllers -}}
{{- if or (not $chosen) (has "sandbox" $chosen) (has "sandboxset" $chosen) -}}yes{{- end -}}
{{- end }}

{{/* Whether it looks after OpenSandbox's; not empty if so. */}}
{{- define "sandgate.operatesOpenSandbox" -}}
{{- $chosen := .Values.operator.controllers -}}
{{- if or (has "batchsandbox" $chosen) (has "pool" $chosen) (has "sandboxsnapshot" $chosen) -}}yes{{- end -}}
{{- end }}

{{/* Whether it looks after environments and their pools; not empty if so. */}}
{{- define "sandgate.operatesEnvironments" -}}
{{- $chosen := .Values.operator.controllers -}}
{{- if or (has "sandboxenv" $chosen) (has "sandboxpool" $chosen) (has "pooladoption" $chosen) -}}yes{{- end -}}
{{- end }}

{{/* Whether it asks the gateways of this release which sandboxes are used; not empty if so. They say it on the push port. */}}
{{- define "sandgate.operatorAsksGateways" -}}
{{- if and .Values.push.enabled (has "sandboxpool" .Values.operator.controllers) -}}yes{{- end -}}
{{- end }}

{{/* The cluster that the manager is in, as environments name it. */}}
{{- define "sandgate.managerCluster" -}}
{{- default .Values.operator.localClusterId .Values.manager.localClusterId | default "" -}}
{{- end }}
