{{/*
Which pods and Jobs podlayer is asked about, in one place: the webhooks and the policies must agree. Every access is
guarded, for a pod may have no labels and no annotations, and an expression that fails would be a failed call.
*/}}

{{/* Namespaces that are left alone whatever they are labelled, as a JSON list. */}}
{{- define "podlayer.excludedNamespaces" -}}
{{- concat (list "kube-system" .Release.Namespace) .Values.webhook.excludedNamespaces | uniq | sortAlpha | toJson }}
{{- end }}

{{/* namespaceSelector of pods and Jobs. `only`: "" all, "Ignore" without failNamespaces, "Fail" failNamespaces. */}}
{{- define "podlayer.namespaceSelector" -}}
{{- $fail := .root.Values.webhook.failNamespaces | uniq | sortAlpha }}
{{- $not := include "podlayer.excludedNamespaces" .root | fromJsonArray }}
{{- if eq .only "Ignore" }}{{ $not = concat $not $fail }}{{ end -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: {{ $not | toJson }}
- key: podlayer.dev/enabled
  operator: NotIn
  values: ["false"]
{{- if eq .only "Fail" }}
- key: kubernetes.io/metadata.name
  operator: In
  # Entries never come and go: an upgrade that drops one fails on the caBundle that podlayer owns. No namespace has a
  # name with a dot.
  values: {{ default (list "no.namespace") $fail | toJson }}
{{- end }}
{{- end }}

{{/*
Whether the object's labels are those of one preset: all of one selector, and none of `without`. null is any value.
`at`: where its metadata is, such as object.metadata.
*/}}
{{- define "podlayer.preset" -}}
{{- $at := .at }}
{{- $any := list }}
{{- range .preset.selectors }}
{{- $all := list }}
{{- range $key, $value := . }}
{{- $label := printf "%s.?labels[?'%s']" $at $key }}
{{- if kindIs "invalid" $value }}{{ $all = append $all (printf "%s.hasValue()" $label) }}
{{- else }}{{ $all = append $all (printf "%s.orValue('') == '%s'" $label $value) }}
{{- end }}
{{- end }}
{{- $any = append $any (join " && " $all) }}
{{- end }}
{{- $is := first $any }}
{{- if gt (len $any) 1 }}{{ $is = printf "((%s))" (join ") || (" $any) }}{{ end }}
{{- range .preset.without }}
{{- $is = printf "%s && !%s.?labels[?'%s'].hasValue()" $is $at . }}
{{- end }}
{{- $is }}
{{- end }}

{{/* Whether the object opted in, by the label or by a preset that is on. */}}
{{- define "podlayer.optedIn" -}}
{{- $any := list (printf "%s.?labels[?'podlayer.dev/enabled'].orValue('') == 'true'" .at) }}
{{- $root := .root }}
{{- $at := .at }}
{{- range $root.Files.Get "files/presets.json" | fromJsonArray }}
{{- if index $root.Values.presets .name }}
{{- $any = append $any (printf "(%s)" (include "podlayer.preset" (dict "preset" . "at" $at))) }}
{{- end }}
{{- end }}
{{- join " || " $any }}
{{- end }}

{{- define "podlayer.podConditions" -}}
- name: opted-in
  expression: {{ include "podlayer.optedIn" (dict "root" . "at" "object.metadata") | quote }}
- name: no-mirror-pod
  expression: "!object.metadata.?annotations[?'kubernetes.io/config.mirror'].hasValue()"
{{- end }}

{{/* An objectSelector would see the Job's own labels only. */}}
{{- define "podlayer.jobConditions" -}}
- name: opted-in
  expression: {{ include "podlayer.optedIn" (dict "root" . "at" "object.spec.template.?metadata") | quote }}
{{- end }}

{{- define "podlayer.layerConditions" -}}
- name: layer
  # Also what stops being a layer or becomes one.
  expression: >-
    object.metadata.?labels[?'podlayer.dev/layer'].hasValue()
    || (oldObject != null && oldObject.metadata.?labels[?'podlayer.dev/layer'].hasValue())
{{- end }}

{{/* What all entries of the webhook configurations share. */}}
{{- define "podlayer.entry" -}}
clientConfig:
  service:
    namespace: {{ .root.Release.Namespace }}
    name: podlayer
    path: {{ .path }}
    port: {{ .root.Values.service.port }}
admissionReviewVersions: [v1]
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: {{ .root.Values.webhook.timeoutSeconds }}
failurePolicy: {{ .failurePolicy }}
{{- end }}

{{- define "podlayer.configurationAnnotations" -}}
{{- $all := deepCopy .Values.webhook.annotations }}
{{- if eq .Values.tls.mode "CertManager" }}
{{- $_ := set $all "cert-manager.io/inject-ca-from" (printf "%s/%s" .Release.Namespace .Values.tls.certificateName) }}
{{- end }}
{{- with $all }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
