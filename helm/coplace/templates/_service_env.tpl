{{/* The variables of a `service`, with the values `own` of it. */}}
{{- define "coplace.serviceEnv" -}}
{{- $root := .root }}
{{- $service := .service }}
{{- $own := .own }}
{{- include "coplace.serverEnv" (dict "root" $root "principal" $service.name "redis" (hasKey $service "redis")) | nindent 0 }}
- {name: COPLACE_HTTP_HOST, value: "0.0.0.0"}
- {name: COPLACE_HTTP_PORT, value: "8080"}
{{- with $root.Values.otlpEndpoint }}
- {name: COPLACE_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- if hasKey $service "stateful" }}
- name: COPLACE_WORKER
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- if and $root.Values.site (eq $service.key "ingest") }}
- {name: COPLACE_INGEST_OF_SITE, value: {{ $root.Values.site | quote }}}
{{- end }}
{{- with $service.grpc }}
- {name: {{ . }}_HOST, value: "0.0.0.0"}
- {name: {{ . }}_PORT, value: {{ $service.port | quote }}}
{{- include "coplace.grpcTls" $root | nindent 0 }}
{{- if $root.Values.grpc.tokens }}
- {name: COPLACE_GRPC_TOKEN_PORT, value: {{ add $service.port 10 | quote }}}
{{- end }}
{{- end }}
{{- with $service.http }}
- {name: {{ . }}_HOST, value: "0.0.0.0"}
- {name: {{ . }}_PORT, value: {{ $service.port | quote }}}
{{- range $asked := include "coplace.services" $root | fromYamlArray }}
{{- if hasKey $asked "grpc" }}
- name: COPLACE_{{ $asked.name | trimSuffix "-api" | upper }}_ADDRESS
  value: {{ printf "%s-%s:%d" (include "coplace.name" $root) $asked.name (add $asked.port (ternary 10 0 $root.Values.grpc.tokens)) }}
{{- end }}
{{- end }}
{{- include "coplace.grpcTls" $root | nindent 0 }}
{{- end }}
{{- if $own.claim }}
{{- if hasKey $service "grpc" }}
- {name: {{ $service.grpc }}_DATABASE, value: /{{ $service.name }}/{{ $service.name }}.db}
{{- else }}
- {name: COPLACE_ARCHIVE_WHERE, value: /archive}
{{- end }}
{{- end }}
{{- if $own.alertsSecret }}
- {name: COPLACE_WEBHOOKS_ALERTS_HOST, value: "0.0.0.0"}
- {name: COPLACE_WEBHOOKS_ALERTS_PORT, value: "8091"}
- {name: COPLACE_WEBHOOKS_ALERTS_TOKEN_FILE, value: /etc/coplace/alerts/token}
{{- end }}
{{- with $own.databaseSecret }}
- name: COPLACE_HISTORY_DATABASE
  valueFrom: {secretKeyRef: {name: {{ . }}, key: url}}
{{- end }}
{{- range $variable, $value := $own.env }}
- {name: {{ $variable }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}
