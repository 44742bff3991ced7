{{/* What names of objects begin with. */}}
{{- define "trainfare.name" -}}
{{- $name := .Values.fullnameOverride | default (contains "trainfare" .Release.Name | ternary .Release.Name (printf "%s-trainfare" .Release.Name)) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels by which the pods of a component are chosen: (list ROOT COMPONENT). */}}
{{- define "trainfare.selector" -}}
app.kubernetes.io/name: trainfare
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "trainfare.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- include "trainfare.selector" (list $root (index . 1)) | nindent 2 }}
{{- end -}}

{{- define "trainfare.image" -}}
image: {{ printf "%s:%s%s" .Values.image.repository .Values.image.tag (.Values.image.digest | empty | ternary "" (printf "@%s" .Values.image.digest)) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{/* What a pod is: nobody on the node, and no rights on the API server. */}}
{{- define "trainfare.pod" -}}
automountServiceAccountToken: false
# No variables of Services, whose names look like settings.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "trainfare.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
{{- end -}}

{{/* Where pods run; nothing where nothing is given. */}}
{{- define "trainfare.placed" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* A value as TOML. JSON's strings are TOML's, but for DEL; the others YAML would not keep as they are. */}}
{{- define "trainfare.toml" -}}
{{- if kindIs "string" . -}}
{{- . | toRawJson | replace "\u007f" "\\u007f" | replace "\u0085" "\\u0085" | replace "\ufeff" "\\ufeff" -}}
{{- else if kindIs "slice" . -}}
{{- $each := list -}}
{{- range . }}{{ $each = append $each (include "trainfare.toml" .) }}{{ end -}}
[{{ join ", " $each }}]
{{- else if kindIs "map" . -}}
{{- $each := list -}}
{{- range $name, $value := . }}{{ $each = append $each (printf "%s = %s" (include "trainfare.toml" $name) (include "trainfare.toml" $value)) }}{{ end -}}
{{ "{" }}{{ join ", " $each }}{{ "}" }}
{{- else if kindIs "float64" . -}}
{{- if eq (float64 (int64 .)) . }}{{ int64 . }}{{ else }}{{ toRawJson . }}{{ end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* Tables with their options as a file of TOML. Their names are known words, by the schema. */}}
{{- define "trainfare.tables" -}}
{{- range $table, $options := . }}
{{- if $options }}
[{{ $table }}]
{{- range $name, $value := $options }}
{{- if not (kindIs "invalid" $value) }}
{{ $name }} = {{ include "trainfare.toml" $value }}
{{- end }}
{{- end }}
{{ else if kindIs "map" $options }}
[{{ $table }}]
{{ end }}
{{- end }}
{{- end -}}

{{/* The sources of a volume of secrets: (list ROOT PREFIX), of settings whose name begins so. A setting of `others` is of no other Secret. */}}
{{- define "trainfare.secrets" -}}
{{- $prefix := index . 1 }}
{{- with (index . 0).Values.secrets }}
{{- $others := .others }}
{{- $own := list }}
{{- range uniq .keys }}{{ if and (hasPrefix $prefix .) (not (hasKey $others .)) }}{{ $own = append $own . }}{{ end }}{{ end }}
{{- if $own }}
- secret:
    name: {{ .name }}
    items:
      {{- range $own }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}
{{- range $setting, $from := .others }}
{{- if hasPrefix $prefix $setting }}
- secret:
    name: {{ $from.name }}
    items:
      - {key: {{ $from.key | quote }}, path: {{ $setting }}}
{{- end }}
{{- end }}
{{- include "trainfare.files" .files }}
{{- end }}
{{- end -}}

{{- define "trainfare.files" -}}
{{- range $file, $from := . }}
- secret:
    name: {{ $from.name }}
    items:
      - {key: {{ $from.key | quote }}, path: {{ $file | quote }}}
{{- end }}
{{- end -}}

{{/* The variables that say where the secret settings are. */}}
{{- define "trainfare.secretVariables" -}}
{{- $root := index . 0 }}{{ $prefix := index . 1 }}
{{- range concat $root.Values.secrets.keys (keys $root.Values.secrets.others) | uniq | sortAlpha }}
{{- if hasPrefix $prefix . }}
- name: TRAINFARE_{{ upper . }}_FILE
  value: /run/secrets/trainfare/{{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The ports of addresses that commas separate; an address without a port has the one that is given: (list TEXT PORT). */}}
{{- define "trainfare.ports" -}}
{{- $default := index . 1 }}{{ $ports := list -}}
{{- range splitList "," (index . 0) -}}
{{- $port := regexFind ":[0-9]+$" (regexReplaceAll "^([a-z]+://[^/]*)/.*$" (trim .) "${1}") | trimPrefix ":" -}}
{{- $ports = append $ports ($port | default $default | int) -}}
{{- end -}}
{{- range uniq $ports }}
- protocol: TCP
  port: {{ . }}
{{- end -}}
{{- end -}}
