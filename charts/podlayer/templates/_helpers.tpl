{{/* Labels of everything that the chart makes. */}}
{{- define "podlayer.labels" -}}
{{ include "podlayer.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels that select podlayer's pods; they never change, for a Deployment's selector can't. */}}
{{- define "podlayer.selectorLabels" -}}
app.kubernetes.io/name: podlayer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "podlayer.image" -}}
{{- $image := .Values.image }}
{{- if not $image.repository }}
{{- fail "image.repository is required: build the image (docs/install.md) and say where it is, such as --set image.repository=registry.example.com/podlayer" }}
{{- end }}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Names of the presets that are on, in the order of files/presets.json, as a JSON list. */}}
{{- define "podlayer.presets" -}}
{{- $on := list }}
{{- range .Files.Get "files/presets.json" | fromJsonArray }}
{{- if index $.Values.presets .name }}{{ $on = append $on .name }}{{ end }}
{{- end }}
{{- $on | toJson }}
{{- end }}

{{/* Namespaces of layers: podlayer's own and those of layerNamespaces, as a JSON list. */}}
{{- define "podlayer.layerNamespaces" -}}
{{- concat (list .Release.Namespace) .Values.layerNamespaces | uniq | sortAlpha | toJson }}
{{- end }}

{{/* Values that a schema can't judge. */}}
{{- define "podlayer.check" -}}
{{- $left := include "podlayer.excludedNamespaces" . | fromJsonArray }}
{{- range .Values.webhook.failNamespaces }}
{{- if has . $left }}
{{- fail (printf "webhook.failNamespaces: %s is left alone by podlayer (kube-system, podlayer's own namespace and webhook.excludedNamespaces are), take it out" .) }}
{{- end }}
{{- end }}
{{- if and .Values.pod.hostNetwork (eq (int .Values.pod.port) 10250) }}
{{- fail "pod.hostNetwork: port 10250 is the kubelet's there, set pod.port to another, such as 9443" }}
{{- end }}
{{- if eq (int .Values.pod.port) (int .Values.pod.adminPort) }}
{{- fail "pod.port and pod.adminPort must differ" }}
{{- end }}
{{- end }}

{{/* Names of the layers in the values, as a JSON list. One that is null was taken out by a later values file. */}}
{{- define "podlayer.layers" -}}
{{- $names := list }}
{{- range $name, $layer := .Values.layers }}{{ if $layer }}{{ $names = append $names $name }}{{ end }}{{ end }}
{{- if and .Values.pools.enabled .Values.pools.protectJobs }}{{ $names = append $names "podlayer-protect-jobs" }}{{ end }}
{{- $names | toJson }}
{{- end }}

{{/* Arguments that change decisions: webhook and controller must decide alike. */}}
{{- define "podlayer.decisionArgs" -}}
- --mode={{ .Values.policy.mode }}
- --on-step-error={{ .Values.policy.onStepError }}
- --provenance={{ .Values.policy.provenance }}
- --mutate={{ .Values.policy.mutate }}
{{- with .Values.policy.defaultImage }}
- {{ printf "--default-image=%s" . | quote }}
{{- end }}
{{- with include "podlayer.presets" . | fromJsonArray }}
- --presets={{ join "," . }}
{{- end }}
{{- with .Values.layerNamespaces }}
- --layer-namespaces={{ . | uniq | sortAlpha | join "," }}
{{- end }}
{{- with .Values.trustedLayerNamespaces }}
- --trusted-layer-namespaces={{ . | uniq | sortAlpha | join "," }}
{{- end }}
{{- if ne .Values.policy.privileged "Anyone" }}
- --privileged={{ .Values.policy.privileged }}
{{- end }}
{{- end }}
