{{/* Labels that select the controller's pods: other ones than the webhook's, whose Service must not find them. */}}
{{- define "podlayer.controllerSelectorLabels" -}}
app.kubernetes.io/name: podlayer-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "podlayer.controllerLabels" -}}
{{ include "podlayer.controllerSelectorLabels" . }}
app.kubernetes.io/part-of: podlayer
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Namespaces with pools, as a JSON list. */}}
{{- define "podlayer.poolNamespaces" -}}
{{- .Values.pools.namespaces | uniq | sortAlpha | toJson }}
{{- end }}

{{- define "podlayer.headroomPriorityClass" -}}
{{ .Values.clusterName }}-headroom
{{- end }}

{{/* Values that a schema can't judge. */}}
{{- define "podlayer.checkPools" -}}
{{- if not .Values.pools.namespaces }}
{{- fail "pools.namespaces: name the namespaces whose pools the controller looks after, such as --set 'pools.namespaces={ci}'" }}
{{- end }}
{{- $left := include "podlayer.excludedNamespaces" . | fromJsonArray }}
{{- range .Values.pools.namespaces }}
{{- if has . $left }}
{{- fail (printf "pools.namespaces: %s is left alone by podlayer (kube-system, podlayer's own namespace and webhook.excludedNamespaces are), so agents there would get no layers; take it out" .) }}
{{- end }}
{{- end }}
{{- end }}
