{{/* Names and labels. */}}
{{- define "coplace.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "coplace.selector" -}}
app.kubernetes.io/name: coplace
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "coplace.labels" -}}
{{ include "coplace.selector" . }}
app.kubernetes.io/part-of: coplace
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "coplace.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a process may do: nothing but its work. */}}
{{- define "coplace.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "coplace.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Every service: its key in values, its name, its module, what ports it has beside its metrics, and
of which consumer group and topics more processes share the work. What a restart has to have back at
once has a lasting name: it is a StatefulSet. */}}
{{- define "coplace.services" -}}
- {key: ingest, name: ingest, module: services.ingest, grpc: COPLACE_INGEST, port: 50051}
- {key: ingestJobcomp, name: ingest-jobcomp, module: services.ingest.jobcomp, stateful: true}
- {key: energy, name: energy, module: services.energy, stateful: true, group: energy.appdb, topics: [telemetry.signatures]}
- {key: appdbCache, name: appdb-cache, module: services.energy.appdb_cache, stateful: true}
- {key: energyApi, name: energy-api, module: services.energy.api, grpc: COPLACE_ENERGY_API, port: 50052}
- {key: prediction, name: prediction, module: services.prediction, stateful: true}
- {key: placement, name: placement, module: services.placement, grpc: COPLACE_PLACEMENT, port: 50053, stateful: true}
- {key: planner, name: planner, module: services.planner, stateful: true}
- {key: pricing, name: pricing, module: services.pricing, stateful: true, group: pricing, topics: [jobs.events, telemetry.shutters]}
- {key: accounts, name: accounts, module: services.pricing.accounts, stateful: true}
{{- end -}}

{{- define "coplace.bootstrap" -}}
{{- if .Values.kafka.own.enabled -}}{{ include "coplace.name" . }}-kafka:9092{{- else -}}{{ .Values.kafka.bootstrap }}{{- end -}}
{{- end -}}

{{/* How to speak to Kafka and Redis, the same for all. */}}
{{- define "coplace.env" -}}
- {name: COPLACE_KAFKA_BOOTSTRAP, value: {{ include "coplace.bootstrap" . | quote }}}
- {name: COPLACE_KAFKA_PARTITIONS, value: {{ .Values.kafka.partitions | quote }}}
- {name: COPLACE_KAFKA_SECURITY_PROTOCOL, value: {{ .Values.kafka.securityProtocol }}}
{{- if contains "SSL" .Values.kafka.securityProtocol }}
{{- with .Values.kafka.tlsSecret }}
- {name: COPLACE_KAFKA_CA_FILE, value: /etc/coplace/kafka/ca.crt}
{{- if eq $.Values.kafka.securityProtocol "SSL" }}
- {name: COPLACE_KAFKA_CERT_FILE, value: /etc/coplace/kafka/tls.crt}
- {name: COPLACE_KAFKA_KEY_FILE, value: /etc/coplace/kafka/tls.key}
{{- end }}
{{- end }}
{{- end }}
{{- if hasPrefix "SASL_" .Values.kafka.securityProtocol }}
- {name: COPLACE_KAFKA_SASL_MECHANISM, value: {{ .Values.kafka.sasl.mechanism }}}
- name: COPLACE_KAFKA_SASL_USERNAME
  valueFrom: {secretKeyRef: {name: {{ .Values.kafka.sasl.secret }}, key: username}}
- name: COPLACE_KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.kafka.sasl.secret }}, key: password}}
{{- end }}
{{- if .Values.redis.own.enabled }}
- {name: COPLACE_REDIS_URL, value: "redis://{{ include "coplace.name" . }}-redis:6379/0"}
{{- else if .Values.redis.urlSecret }}
- name: COPLACE_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.redis.urlSecret }}, key: url}}
{{- else }}
- {name: COPLACE_REDIS_URL, value: {{ .Values.redis.url | quote }}}
{{- end }}
{{- if .Values.redis.tlsSecret }}
- {name: COPLACE_REDIS_CA_FILE, value: /etc/coplace/redis/ca.crt}
{{- end }}
{{- if .Values.topicPrefix }}
- {name: COPLACE_NAMESPACE, value: {{ .Values.topicPrefix | quote }}}
{{- end }}
- {name: COPLACE_LOG_LEVEL, value: {{ .Values.logLevel }}}
{{- range $name, $value := .Values.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{- define "coplace.grpcTls" -}}
{{- if .Values.grpc.tlsSecret }}
- {name: COPLACE_GRPC_CERT_FILE, value: /etc/coplace/grpc/tls.crt}
- {name: COPLACE_GRPC_KEY_FILE, value: /etc/coplace/grpc/tls.key}
- {name: COPLACE_GRPC_CA_FILE, value: /etc/coplace/grpc/ca.crt}
{{- end }}
{{- end -}}

{{- define "coplace.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- range $of := list "kafka" "redis" "grpc" }}
{{- if (index $.Values $of).tlsSecret }}
- {name: {{ $of }}-tls, mountPath: /etc/coplace/{{ $of }}, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "coplace.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
{{- range $of := list "kafka" "redis" "grpc" }}
{{- with (index $.Values $of).tlsSecret }}
- {name: {{ $of }}-tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where pods may run. */}}
{{- define "coplace.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* What cannot work is refused before anything starts. */}}
{{- define "coplace.require" -}}
{{- with .Values.kafka }}
{{- if and .own.enabled .bootstrap }}{{ fail "set kafka.bootstrap or kafka.own.enabled, not both" }}{{ end }}
{{- if not (or .own.enabled .bootstrap) }}{{ fail "kafka.bootstrap is missing: name the brokers, host:port,..., or set kafka.own.enabled=true for a first try" }}{{ end }}
{{- if and .own.enabled (ne .securityProtocol "PLAINTEXT") }}{{ fail "kafka.own speaks PLAINTEXT alone: bring a Kafka of your own for TLS and SASL" }}{{ end }}
{{- if and (hasPrefix "SASL_" .securityProtocol) (not .sasl.secret) }}{{ fail (printf "kafka.sasl.secret is missing: name a secret with the keys username and password for %s" .securityProtocol) }}{{ end }}
{{- end }}
{{- with .Values.redis }}
{{- if gt (len (compact (list .url .urlSecret (ternary "own" "" .own.enabled)))) 1 }}{{ fail "set one of redis.url, redis.urlSecret and redis.own.enabled" }}{{ end }}
{{- if not (or .own.enabled .url .urlSecret) }}{{ fail "redis.url is missing: name the server, redis[s]://host:port/0, a secret in redis.urlSecret, or set redis.own.enabled=true for a first try" }}{{ end }}
{{- end }}
{{- end -}}

{{/* A volume of a server of the chart's own. */}}
{{- define "coplace.claim" -}}
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .class }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .size }}
{{- end -}}
