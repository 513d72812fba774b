{{/* Labels of everything that the chart makes. */}}
{{- define "ingress.labels" -}}
app.kubernetes.io/name: podlayer-ingress
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Paths by the pool that they are of, as JSON: {"": ["/acquire", …], "ci.linux": […]}. */}}
{{- define "ingress.paths" -}}
{{- $paths := dict }}
{{- if .Values.defaultPool }}{{ $_ := set $paths "" (list "/acquire" "/release") }}{{ end }}
{{- range $pool := .Values.pools }}
{{- $own := list }}
{{- range $.Values.endpoints | uniq }}{{ $own = append $own (printf "/v1/pools/%s/%s/%s" $pool.namespace $pool.name .) }}{{ end }}
{{- $_ := set $paths (printf "%s.%s" $pool.namespace $pool.name) $own }}
{{- end }}
{{- $paths | toJson }}
{{- end }}

{{- define "ingress.issuer" -}}
{{ .Values.letsEncrypt.issuerName }}{{ if and .Values.letsEncrypt.staging .Values.letsEncrypt.createIssuer }}-staging{{ end }}
{{- end }}

{{/* Values that a schema can't judge, or judges in words that nobody understands. */}}
{{- define "ingress.check" -}}
{{- $tls := .Values.tls }}
{{- if not .Values.dnsName }}
{{- fail "dnsName is required: the public name by which Azure DevOps calls, such as --set dnsName=agents.example.com" }}
{{- end }}
{{- if not (or .Values.defaultPool .Values.pools) }}
{{- fail "nothing is let in: set defaultPool to true or list pools" }}
{{- end }}
{{- if eq $tls.mode "Files" }}
{{- if not (and $tls.certificate $tls.key) }}
{{- fail "tls.mode Files needs both: --set-file tls.certificate=tls.crt --set-file tls.key=tls.key" }}
{{- end }}
{{- if not (contains "-----BEGIN CERTIFICATE-----" $tls.certificate) }}
{{- fail "tls.certificate is no PEM certificate: it has no line -----BEGIN CERTIFICATE-----; was the file's name given with --set and not --set-file?" }}
{{- end }}
{{- if contains "ENCRYPTED" $tls.key }}
{{- fail "tls.key is encrypted; write it without a passphrase, such as by openssl pkey -in tls.key" }}
{{- end }}
{{- if not (regexMatch "-----BEGIN ([A-Z]+ )?PRIVATE KEY-----" $tls.key) }}
{{- fail "tls.key is no PEM key: it has no line -----BEGIN PRIVATE KEY-----; was the file's name given with --set and not --set-file?" }}
{{- end }}
{{- else if or $tls.certificate $tls.key }}
{{- fail (printf "tls.certificate and tls.key are for tls.mode Files, and tls.mode is %s" $tls.mode) }}
{{- end }}
{{- $existing := .Values.gateway.existing.name }}
{{- if eq .Values.kind "Gateway" }}
{{- if and $existing .Values.gateway.className }}
{{- fail "gateway.className is for a Gateway that the chart makes, and gateway.existing.name names another: set one of them" }}
{{- end }}
{{- if not (or $existing .Values.gateway.className) }}
{{- fail "kind Gateway needs gateway.className, for a Gateway of its own, or gateway.existing.name" }}
{{- end }}
{{- if and $existing (ne $tls.mode "Gateway") }}
{{- fail (printf "tls.mode is %s, but the Gateway %s ends TLS with a certificate of its own: set tls.mode to Gateway" $tls.mode $existing) }}
{{- end }}
{{- end }}
{{- if and (eq $tls.mode "Gateway") (or (ne .Values.kind "Gateway") (not $existing)) }}
{{- fail "tls.mode Gateway is for kind Gateway with gateway.existing.name" }}
{{- end }}
{{- if and (eq .Values.kind "Ingress") (or $existing .Values.gateway.className) }}
{{- fail "gateway.className and gateway.existing are for kind Gateway, and kind is Ingress" }}
{{- end }}
{{- if and (eq .Values.kind "Gateway") (or .Values.ingress.className .Values.ingress.annotations) }}
{{- fail "ingress.className and ingress.annotations are for kind Ingress, and kind is Gateway" }}
{{- end }}
{{- end }}
