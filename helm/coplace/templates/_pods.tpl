{{/* What the pods of a component have, by the values `own` of it: they are left out where it has none. */}}

{{/* The value `key` of a component, or that of all. */}}
{{- define "coplace.ownOr" -}}
{{- $own := .own | default dict }}
{{- with ternary (get $own .key) (get .root.Values .key) (hasKey $own .key) }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* Labels, and annotations beside the chart's own `annotations`. */}}
{{- define "coplace.podMetadata" -}}
labels:
  {{- include "coplace.labels" . | nindent 2 }}
  {{- with include "coplace.ownOr" (merge (dict "key" "podLabels") .) }}
  {{- . | nindent 2 }}
  {{- end }}
{{- $annotations := compact (list .annotations (include "coplace.ownOr" (merge (dict "key" "podAnnotations") .))) }}
{{- with $annotations }}
annotations:
  {{- join "\n" . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods may run. */}}
{{- define "coplace.scheduling" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $of := . }}
{{- range $key := list "affinity" "nodeSelector" "tolerations" }}
{{- with include "coplace.ownOr" (merge (dict "key" $key) $of) }}
{{ $key }}: {{- . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Processes of a component come to different nodes where they can. */}}
{{- define "coplace.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "coplace.selector" . | nindent 8 }}
{{- end -}}

{{- define "coplace.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- range $of, $secret := include "coplace.files" .root | fromYaml }}
{{- if $secret }}
- {name: {{ $of }}-tls, mountPath: /etc/coplace/{{ $of }}, readOnly: true}
{{- end }}
{{- end }}
{{- include "coplace.extraMounts" . }}
{{- end -}}

{{- define "coplace.extraMounts" -}}
{{- with include "coplace.ownOr" (merge (dict "key" "extraVolumeMounts") .) }}
{{ . }}
{{- end }}
{{- end -}}

{{/* The certificate of gRPC may come later where `withoutGrpc` says so. */}}
{{- define "coplace.volumes" -}}
{{- $may := .withoutGrpc -}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- range $of, $secret := include "coplace.files" .root | fromYaml }}
{{- with $secret }}
- {name: {{ $of }}-tls, secret: {secretName: {{ . }}, defaultMode: 0440{{ if and (eq $of "grpc") $may }}, optional: true{{ end }}}}
{{- end }}
{{- end }}
{{- include "coplace.extraVolumes" . }}
{{- end -}}

{{- define "coplace.extraVolumes" -}}
{{- with include "coplace.ownOr" (merge (dict "key" "extraVolumes") .) }}
{{ . }}
{{- end }}
{{- end -}}

{{/* Variables, of which a later one takes the place of an earlier one: a server-side apply refuses two of a name. */}}
{{- define "coplace.lastOfEach" -}}
{{- $found := dict }}
{{- $names := list }}
{{- range fromYamlArray . }}
{{- if not (hasKey $found .name) }}{{ $names = append $names .name }}{{ end }}
{{- $_ := set $found .name . }}
{{- end }}
{{- range $names }}
- {{ get $found . | toJson }}
{{- end }}
{{- end -}}
