{{/* Labels that select the pods of the endpoint for Azure Pipelines: other ones than the webhook's. */}}
{{- define "podlayer.azureSelectorLabels" -}}
app.kubernetes.io/name: podlayer-azure
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "podlayer.azureLabels" -}}
{{ include "podlayer.azureSelectorLabels" . }}
app.kubernetes.io/part-of: podlayer
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Namespaces whose pools are served, as a JSON list. */}}
{{- define "podlayer.azureNamespaces" -}}
{{- .Values.azure.namespaces | uniq | sortAlpha | toJson }}
{{- end }}

{{/* Values that a schema can't judge. */}}
{{- define "podlayer.checkAzure" -}}
{{- $azure := .Values.azure }}
{{- if not $azure.namespaces }}
{{- fail "azure.namespaces: name the namespaces whose pools are served, such as --set 'azure.namespaces={ci}'" }}
{{- end }}
{{- $left := include "podlayer.excludedNamespaces" . | fromJsonArray }}
{{- range $azure.namespaces }}
{{- if has . $left }}
{{- fail (printf "azure.namespaces: %s is left alone by podlayer (kube-system, podlayer's own namespace and webhook.excludedNamespaces are), so agents there would get no layers; take it out" .) }}
{{- end }}
{{- end }}
{{- if not .Values.pools.enabled }}
{{- fail "azure.enabled needs pools.enabled: the controller installs the kind AgentPool and looks after BuildKit and status" }}
{{- end }}
{{- range $azure.namespaces }}
{{- if not (has . $.Values.pools.namespaces) }}
{{- fail (printf "azure.namespaces: %s isn't in pools.namespaces, so no controller would look after its pools; add it there" .) }}
{{- end }}
{{- end }}
{{- with $azure.defaultPool }}
{{- if not (has (splitList "/" . | first) $azure.namespaces) }}
{{- fail (printf "azure.defaultPool: %s is in a namespace that isn't served; add it to azure.namespaces" .) }}
{{- end }}
{{- end }}
{{- range $azure.imageBuilds }}
{{- if not (has .namespace $azure.namespaces) }}
{{- fail (printf "azure.imageBuilds: %s is no namespace of azure.namespaces" .namespace) }}
{{- end }}
{{- end }}
{{- end }}
