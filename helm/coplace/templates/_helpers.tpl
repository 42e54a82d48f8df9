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

{{/* The image of a kind of service, `extra`: each installs an extra of pyproject.toml and no other. */}}
{{- define "coplace.image" -}}
{{- $root := .root }}{{ $image := printf "%s-%s" $root.Values.image.repository .extra -}}
{{- with get $root.Values.image.digests .extra -}}{{ $image }}@{{ . }}
{{- else -}}{{ $image }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}{{- end -}}
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
of which consumer group and topics more processes share the work, and whether it speaks to Redis. Its
name is that of its principal in proto/principals.yaml. A site has the way in alone. What a restart has to have back at once has a
lasting name: it is a StatefulSet. */}}
{{- define "coplace.services" -}}
- {key: ingest, name: ingest, module: services.ingest, grpc: COPLACE_INGEST, port: 50051}
- {key: ingestJobcomp, name: ingest-jobcomp, module: services.ingest.jobcomp, stateful: true}
{{- if ne .Values.role "site" }}
- {key: energy, name: energy, module: services.energy, stateful: true, group: energy.appdb, topics: [telemetry.signatures]}
- {key: appdbCache, name: appdb-cache, module: services.energy.appdb_cache, stateful: true, redis: true}
- {key: energyApi, name: energy-api, module: services.energy.api, grpc: COPLACE_ENERGY_API, port: 50052, redis: true}
- {key: prediction, name: prediction, extra: prediction, module: services.prediction, stateful: true}
- {key: placement, name: placement, extra: placement, module: services.placement, grpc: COPLACE_PLACEMENT, port: 50053, stateful: true}
- {key: watch, name: watch, module: services.watch, grpc: COPLACE_WATCH, port: 50054}
- {key: planner, name: planner, extra: planner, module: services.planner, stateful: true}
- {key: rest, name: rest, extra: rest, module: services.rest, http: COPLACE_REST, port: 8090}
- {key: archive, name: archive, extra: archive, module: services.archive, stateful: true}
- {key: history, name: history, extra: history, module: services.history, grpc: COPLACE_HISTORY, port: 50055, stateful: true}
- {key: webhooks, name: webhooks, extra: webhooks, module: services.webhooks, grpc: COPLACE_WEBHOOKS, port: 50056, stateful: true}
- {key: pricing, name: pricing, module: services.pricing, stateful: true}
- {key: accounts, name: accounts, module: services.pricing.accounts, stateful: true, redis: true}
{{- end }}
{{- end -}}

{{/* A name at Kafka, as the services make it: topicPrefix, a dot, the rest. */}}
{{- define "coplace.prefix" -}}
{{- with .Values.topicPrefix -}}{{ . }}.{{- end -}}
{{- end -}}

{{- define "coplace.bootstrap" -}}
{{- if .Values.kafka.own.enabled -}}{{ include "coplace.name" . }}-kafka:9092
{{- else if .Values.kafka.strimzi.enabled -}}{{ include "coplace.name" . }}-kafka-bootstrap:9093
{{- else -}}{{ .Values.kafka.bootstrap }}{{- end -}}
{{- end -}}

{{/* How Kafka is spoken to: Strimzi's is made with TLS and passwords. */}}
{{- define "coplace.protocol" -}}
{{- ternary "SASL_SSL" .Values.kafka.securityProtocol .Values.kafka.strimzi.enabled -}}
{{- end -}}

{{- define "coplace.kafkaTlsSecret" -}}
{{- if .Values.kafka.strimzi.enabled -}}{{ include "coplace.name" . }}-cluster-ca-cert
{{- else -}}{{ .Values.kafka.tlsSecret }}{{- end -}}
{{- end -}}

{{/* The secret of the user of a service, `principal`. */}}
{{- define "coplace.kafkaSecret" -}}
{{- $kafka := .root.Values.kafka -}}
{{- if $kafka.strimzi.enabled -}}{{ include "coplace.prefix" .root }}{{ .principal }}
{{- else -}}{{ $kafka.sasl.secret | default (printf "%s%s" $kafka.sasl.secretPrefix .principal) }}{{- end -}}
{{- end -}}

{{/* What `principal` has, each variable once. */}}
{{- define "coplace.env" -}}
{{- include "coplace.lastOfEach" (include "coplace.serverEnv" .) -}}
{{- end -}}

{{/* What a Job of the operator has that calls ingest, with the certificate of the template `tls`. */}}
{{- define "coplace.operatorEnv" -}}
{{- $ingest := printf "- {name: COPLACE_INGEST_ADDRESS, value: %q}" (printf "%s-ingest:50051" (include "coplace.name" .root)) }}
{{- $servers := include "coplace.serverEnv" (dict "root" .root "principal" "operator") }}
{{- list $servers (include .tls .root) $ingest | join "\n" | include "coplace.lastOfEach" -}}
{{- end -}}

{{/* How `principal` speaks to Kafka, and to Redis where it does so, and what the values say for all. */}}
{{- define "coplace.serverEnv" -}}
{{- $root := .root }}
{{- $protocol := include "coplace.protocol" $root }}
{{- $secret := include "coplace.kafkaSecret" . }}
- {name: COPLACE_KAFKA_BOOTSTRAP, value: {{ include "coplace.bootstrap" $root | quote }}}
- {name: COPLACE_KAFKA_PARTITIONS, value: {{ $root.Values.kafka.partitions | quote }}}
- {name: COPLACE_KAFKA_SECURITY_PROTOCOL, value: {{ $protocol }}}
{{- if contains "SSL" $protocol }}
{{- if include "coplace.kafkaTlsSecret" $root }}
- {name: COPLACE_KAFKA_CA_FILE, value: /etc/coplace/kafka/ca.crt}
{{- if eq $protocol "SSL" }}
- {name: COPLACE_KAFKA_CERT_FILE, value: /etc/coplace/kafka/tls.crt}
- {name: COPLACE_KAFKA_KEY_FILE, value: /etc/coplace/kafka/tls.key}
{{- end }}
{{- end }}
{{- end }}
{{- if hasPrefix "SASL_" $protocol }}
- {name: COPLACE_KAFKA_SASL_MECHANISM, value: {{ $root.Values.kafka.sasl.mechanism }}}
{{- if $root.Values.kafka.strimzi.enabled }}
- {name: COPLACE_KAFKA_SASL_USERNAME, value: {{ $secret }}}
{{- else }}
- name: COPLACE_KAFKA_SASL_USERNAME
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: username}}
{{- end }}
- name: COPLACE_KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: password}}
{{- end }}
{{- if .redis }}
{{- if $root.Values.redis.own.enabled }}
- {name: COPLACE_REDIS_URL, value: "redis://{{ include "coplace.name" $root }}-redis:6379/0"}
{{- else if or $root.Values.redis.urlSecret $root.Values.redis.urlSecretPrefix }}
- name: COPLACE_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ $root.Values.redis.urlSecret | default (printf "%s%s" $root.Values.redis.urlSecretPrefix .principal) }}, key: url}}
{{- else }}
- {name: COPLACE_REDIS_URL, value: {{ $root.Values.redis.url | quote }}}
{{- end }}
{{- if $root.Values.redis.tlsSecret }}
- {name: COPLACE_REDIS_CA_FILE, value: /etc/coplace/redis/ca.crt}
{{- end }}
{{- end }}
{{- if $root.Values.topicPrefix }}
- {name: COPLACE_NAMESPACE, value: {{ $root.Values.topicPrefix | quote }}}
{{- end }}
- {name: COPLACE_LOG_LEVEL, value: {{ $root.Values.logLevel }}}
{{- range $name, $value := $root.Values.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}

{{/* How a site speaks to its hub's Kafka. */}}
{{- define "coplace.hubEnv" -}}
{{- $hub := .Values.hub }}
- {name: COPLACE_KAFKA_BOOTSTRAP, value: {{ $hub.bootstrap | quote }}}
- {name: COPLACE_KAFKA_PARTITIONS, value: {{ .Values.kafka.partitions | quote }}}
- {name: COPLACE_KAFKA_SECURITY_PROTOCOL, value: {{ $hub.securityProtocol }}}
{{- if and $hub.tlsSecret (hasSuffix "SSL" $hub.securityProtocol) }}
- {name: COPLACE_KAFKA_CA_FILE, value: /etc/coplace/hub/ca.crt}
{{- end }}
{{- if hasPrefix "SASL_" $hub.securityProtocol }}
- {name: COPLACE_KAFKA_SASL_MECHANISM, value: {{ $hub.sasl.mechanism }}}
- name: COPLACE_KAFKA_SASL_USERNAME
  valueFrom: {secretKeyRef: {name: {{ $hub.sasl.secret }}, key: username}}
- name: COPLACE_KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $hub.sasl.secret }}, key: password}}
{{- end }}
{{- if .Values.topicPrefix }}
- {name: COPLACE_NAMESPACE, value: {{ .Values.topicPrefix | quote }}}
{{- end }}
{{- end -}}

{{- define "coplace.grpcTls" -}}
{{- if .Values.grpc.tlsSecret }}
- {name: COPLACE_GRPC_CERT_FILE, value: /etc/coplace/grpc/tls.crt}
- {name: COPLACE_GRPC_KEY_FILE, value: /etc/coplace/grpc/tls.key}
- {name: COPLACE_GRPC_CA_FILE, value: /etc/coplace/grpc/ca.crt}
{{- end }}
{{- end -}}

{{/* Secrets that are files, by the folder below /etc/coplace. */}}
{{- define "coplace.files" -}}
kafka: {{ include "coplace.kafkaTlsSecret" . | quote }}
redis: {{ .Values.redis.tlsSecret | quote }}
grpc: {{ .Values.grpc.tlsSecret | quote }}
hub: {{ .Values.hub.tlsSecret | quote }}
{{- end -}}

{{/* What does not fit the role. */}}
{{- define "coplace.requireRole" -}}
{{- $hub := .Values.hub }}
{{- if eq .Values.role "site" }}
{{- if not .Values.site }}{{ fail "site is missing: role: site needs the name of the site, as in the ids of its jobs" }}{{ end }}
{{- if not $hub.bootstrap }}{{ fail "hub.bootstrap is missing: role: site needs the brokers of its hub, host:port,..." }}{{ end }}
{{- if and (hasPrefix "SASL_" $hub.securityProtocol) (not $hub.sasl.secret) }}{{ fail (printf "hub.sasl.secret is missing: name a secret with the keys username and password for %s" $hub.securityProtocol) }}{{ end }}
{{- if eq .Values.kafka.securityProtocol "SSL" }}{{ fail "kafka.securityProtocol=SSL does not fit role: site: its MirrorMaker 2 shows a password, take SASL_SSL" }}{{ end }}
{{- if eq $hub.bootstrap (include "coplace.bootstrap" .) }}{{ fail "hub.bootstrap is this site's own Kafka: on one Kafka take role: region" }}{{ end }}
{{- if or .Values.redis.url .Values.redis.urlSecret .Values.redis.urlSecretPrefix .Values.redis.own.enabled }}{{ fail "redis is the hub's: role: site has nothing that speaks to it, take redis out" }}{{ end }}
{{- if include "coplace.hasAuthority" . }}{{ fail "authority is the hub's: its table of authority comes down to role: site, declare it there" }}{{ end }}
{{- if .Values.autoscaling.enabled }}{{ fail "autoscaling.enabled is the hub's: role: site has no keyed stage" }}{{ end }}
{{- if .Values.services.planner.enabled }}{{ fail "services.planner.enabled is the hub's: role: site does not place" }}{{ end }}
{{- if .Values.services.archive.enabled }}{{ fail "services.archive.enabled is the hub's: role: site has no topic of prices" }}{{ end }}
{{- if .Values.services.history.enabled }}{{ fail "services.history.enabled is the hub's: role: site has no topic of prices" }}{{ end }}
{{- if .Values.services.webhooks.enabled }}{{ fail "services.webhooks.enabled is the hub's: role: site has no topic of prices" }}{{ end }}
{{- if .Values.kubernetes.enabled }}
{{- if not $hub.placement }}{{ fail "hub.placement is missing: kubernetes.enabled at role: site asks the hub's placement, host:port" }}{{ end }}
{{- if ne .Values.kubernetes.site .Values.site }}{{ fail (printf "kubernetes.site is %q and site is %q: an installation is of one site" .Values.kubernetes.site .Values.site) }}{{ end }}
{{- end }}
{{- if .Values.kueue.enabled }}
{{- if not $hub.placement }}{{ fail "hub.placement is missing: kueue.enabled at role: site asks the hub's placement, host:port" }}{{ end }}
{{- if ne .Values.kueue.site .Values.site }}{{ fail (printf "kueue.site is %q and site is %q: an installation is of one site" .Values.kueue.site .Values.site) }}{{ end }}
{{- end }}
{{- if .Values.slurm.enabled }}
{{- if not $hub.placement }}{{ fail "hub.placement is missing: slurm.enabled at role: site asks the hub's placement, host:port" }}{{ end }}
{{- if not $hub.watch }}{{ fail "hub.watch is missing: slurm.enabled at role: site hears decisions from the hub's watch, host:port" }}{{ end }}
{{- if ne .Values.slurm.site .Values.site }}{{ fail (printf "slurm.site is %q and site is %q: an installation is of one site" .Values.slurm.site .Values.site) }}{{ end }}
{{- end }}
{{- else }}
{{- if or .Values.site $hub.bootstrap $hub.placement $hub.watch }}{{ fail (printf "site and hub are for role: site, and this is role: %s" .Values.role) }}{{ end }}
{{- if and (eq .Values.role "hub") .Values.kubernetes.enabled }}{{ fail "kubernetes.enabled does not fit role: hub: install it with role: site near its machines, or take role: region" }}{{ end }}
{{- if and (eq .Values.role "hub") .Values.kueue.enabled }}{{ fail "kueue.enabled does not fit role: hub: install it with role: site near its machines, or take role: region" }}{{ end }}
{{- if and (eq .Values.role "hub") .Values.slurm.enabled }}{{ fail "slurm.enabled does not fit role: hub: install it with role: site near its machines, or take role: region" }}{{ end }}
{{- end }}
{{- end -}}

{{/* What cannot work is refused before anything starts. */}}
{{- define "coplace.require" -}}
{{- include "coplace.requireRole" . }}
{{- with .Values.kafka }}
{{- $given := compact (list .bootstrap (ternary "own" "" .own.enabled) (ternary "strimzi" "" .strimzi.enabled)) }}
{{- if gt (len $given) 1 }}{{ fail "set one of kafka.bootstrap, kafka.own.enabled and kafka.strimzi.enabled, not more" }}{{ end }}
{{- if not $given }}{{ fail "kafka.bootstrap is missing: name the brokers, host:port,..., or set kafka.own.enabled=true for a first try" }}{{ end }}
{{- if and .strimzi.enabled (not ($.Capabilities.APIVersions.Has "kafka.strimzi.io/v1")) }}{{ fail "kafka.strimzi.enabled needs Strimzi 0.49 or newer (kafka.strimzi.io/v1), which this cluster has not: install its operator, or name brokers in kafka.bootstrap" }}{{ end }}
{{- if and .own.enabled (ne .securityProtocol "PLAINTEXT") }}{{ fail "kafka.own speaks PLAINTEXT alone: bring a Kafka of your own for TLS and SASL" }}{{ end }}
{{- if and .sasl.secret .sasl.secretPrefix }}{{ fail "set kafka.sasl.secret for one user of all services, or kafka.sasl.secretPrefix for one of each, not both" }}{{ end }}
{{- if and .bootstrap (hasPrefix "SASL_" .securityProtocol) (not (or .sasl.secret .sasl.secretPrefix)) }}{{ fail (printf "kafka.sasl.secret is missing: name a secret with the keys username and password for %s" .securityProtocol) }}{{ end }}
{{- end }}
{{- with .Values.redis }}
{{- $given := compact (list .url .urlSecret .urlSecretPrefix (ternary "own" "" .own.enabled)) }}
{{- if gt (len $given) 1 }}{{ fail "set one of redis.url, redis.urlSecret, redis.urlSecretPrefix and redis.own.enabled" }}{{ end }}
{{- if not (or $given (eq $.Values.role "site")) }}{{ fail "redis.url is missing: name the server, redis[s]://host:port/0, a secret in redis.urlSecret, or set redis.own.enabled=true for a first try" }}{{ end }}
{{- end }}
{{- with .Values.services.archive }}
{{- if and .enabled (not (or .claim .env.COPLACE_ARCHIVE_WHERE)) }}{{ fail "services.archive.claim is missing: name a PersistentVolumeClaim, or an object store in services.archive.env.COPLACE_ARCHIVE_WHERE" }}{{ end }}
{{- end }}
{{- with .Values.services.history }}
{{- if and .enabled (not (or .claim .databaseSecret)) }}{{ fail "services.history.claim is missing: name a PersistentVolumeClaim for its database, or a Secret with the URL of PostgreSQL in services.history.databaseSecret" }}{{ end }}
{{- if and .claim .databaseSecret }}{{ fail "set one of services.history.claim and services.history.databaseSecret" }}{{ end }}
{{- end }}
{{- with .Values.services.webhooks }}
{{- if and .enabled (not .claim) }}{{ fail "services.webhooks.claim is missing: name a PersistentVolumeClaim for its database and key" }}{{ end }}
{{- end }}
{{- $rate := "COPLACE_PRICING_RATE_SU_PER_CORE_S" }}
{{- $ofPricing := get .Values.services.pricing.env $rate | default (get .Values.env $rate) | toString }}
{{- $ofPlacement := get .Values.services.placement.env $rate | default (get .Values.env $rate) | toString }}
{{- if ne $ofPricing $ofPlacement }}{{ fail (printf "%s must be the same in services.pricing.env and services.placement.env, which quotes by it: it is %q and %q" $rate $ofPricing $ofPlacement) }}{{ end }}
{{- if and .Values.authority.bindings .Values.authority.configMap }}{{ fail "set one of authority.bindings and authority.configMap" }}{{ end }}
{{- if and .Values.authority.issuer (not .Values.authority.bindings) }}{{ fail "authority.issuer needs authority.bindings: a ConfigMap has its own" }}{{ end }}
{{- if and .Values.grpc.tokens (not .Values.grpc.tlsSecret) }}{{ fail "grpc.tokens needs grpc.tlsSecret: tokens come over TLS alone" }}{{ end }}
{{- if and (include "coplace.hasAuthority" .) (not .Values.grpc.tlsSecret) }}{{ fail "authority needs grpc.tlsSecret: certificates name the clients" }}{{ end }}
{{- if and (include "coplace.hasAuthority" .) (not .Values.authority.tlsSecret) }}{{ fail "authority.tlsSecret is missing: name a secret with the keys tls.crt, tls.key and ca.crt of an operator of all sites, who declares the table" }}{{ end }}
{{- include "coplace.requireSecrets" . }}
{{- end -}}

{{/* The table of authority as a file, and whose certificate declares it. Bindings are an annotation of
the pod: a ConfigMap of the release is not there before the release is. */}}
{{- define "coplace.hasAuthority" -}}
{{- if or .Values.authority.bindings .Values.authority.configMap }}yes{{ end -}}
{{- end -}}

{{- define "coplace.authorityAnnotations" -}}
{{- with .Values.authority.bindings }}
{{- $table := dict "bindings" . }}
{{- with $.Values.authority.issuer }}{{ $_ := set $table "issuer" . }}{{ end -}}
coplace.io/authority: {{ toYaml $table | quote }}
{{- end }}
{{- end -}}

{{/* Who declares the table. */}}
{{- define "coplace.operatorTls" -}}
- {name: COPLACE_GRPC_CERT_FILE, value: /etc/coplace/operator/tls.crt}
- {name: COPLACE_GRPC_KEY_FILE, value: /etc/coplace/operator/tls.key}
- {name: COPLACE_GRPC_CA_FILE, value: /etc/coplace/operator/ca.crt}
{{- end -}}

{{- define "coplace.operatorMount" -}}
- {name: operator, mountPath: /etc/coplace/operator, readOnly: true}
{{- end -}}

{{- define "coplace.authorityVolume" -}}
{{- with .Values.authority.configMap }}
- {name: authority, configMap: {name: {{ . }}}}
{{- else }}
- name: authority
  downwardAPI:
    items:
      - {path: authority.yaml, fieldRef: {fieldPath: "metadata.annotations['coplace.io/authority']"}}
{{- end }}
{{- end -}}

{{- define "coplace.operatorVolume" -}}
- {name: operator, secret: {secretName: {{ .Values.authority.tlsSecret }}, defaultMode: 0440}}
{{- end -}}

{{/* Each secret that has to be there before anything starts, and its keys. Strimzi and cert-manager make their own. */}}
{{- define "coplace.secrets" -}}
{{- $kafka := .Values.kafka }}
{{- $sasl := and $kafka.bootstrap (hasPrefix "SASL_" $kafka.securityProtocol) }}
{{- if and $sasl $kafka.sasl.secret }}
- {value: kafka.sasl.secret, name: {{ $kafka.sasl.secret }}, keys: [username, password]}
{{- else if $sasl }}
- {value: kafka.sasl.secretPrefix, name: {{ $kafka.sasl.secretPrefix }}operator, keys: [username, password]}
{{- $root := . }}
{{- range $service := include "coplace.services" . | fromYamlArray }}
{{- if ne (get (index $root.Values.services $service.key) "enabled" | toString) "false" }}
- {value: kafka.sasl.secretPrefix, name: {{ $kafka.sasl.secretPrefix }}{{ $service.name }}, keys: [username, password]}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .Values.role "site" }}
{{- if and $sasl (not $kafka.sasl.secret) }}
- {value: kafka.sasl.secretPrefix, name: {{ $kafka.sasl.secretPrefix }}mirror, keys: [username, password]}
{{- end }}
{{- with .Values.hub.tlsSecret }}
- {value: hub.tlsSecret, name: {{ . }}, keys: [ca.crt]}
{{- end }}
{{- with .Values.hub.sasl.secret }}
- {value: hub.sasl.secret, name: {{ . }}, keys: [username, password]}
{{- end }}
{{- end }}
{{- if and $kafka.bootstrap $kafka.tlsSecret }}
- {value: kafka.tlsSecret, name: {{ $kafka.tlsSecret }}, keys: {{ ternary "[ca.crt, tls.crt, tls.key]" "[ca.crt]" (eq $kafka.securityProtocol "SSL") }}}
{{- end }}
{{- with .Values.redis.urlSecret }}
- {value: redis.urlSecret, name: {{ . }}, keys: [url]}
{{- end }}
{{- with .Values.redis.urlSecretPrefix }}
- {value: redis.urlSecretPrefix, name: {{ . }}operator, keys: [url]}
{{- $prefix := . }}
{{- range $service := include "coplace.services" $ | fromYamlArray }}
{{- if hasKey $service "redis" }}
- {value: redis.urlSecretPrefix, name: {{ $prefix }}{{ $service.name }}, keys: [url]}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.services.history.databaseSecret }}
- {value: services.history.databaseSecret, name: {{ . }}, keys: [url]}
{{- end }}
{{- with .Values.services.webhooks.alertsSecret }}
- {value: services.webhooks.alertsSecret, name: {{ . }}, keys: [token]}
{{- end }}
{{- with .Values.redis.tlsSecret }}
- {value: redis.tlsSecret, name: {{ . }}, keys: [ca.crt]}
{{- end }}
{{- if not .Values.certificates.issuerRef.name }}
{{- if include "coplace.hasAuthority" . }}
- {value: authority.tlsSecret, name: {{ .Values.authority.tlsSecret }}, keys: [tls.crt, tls.key, ca.crt]}
{{- end }}
{{- with .Values.grpc.tlsSecret }}
- {value: grpc.tlsSecret, name: {{ . }}, keys: [tls.crt, tls.key, ca.crt]}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether secrets are there, where a cluster can be asked: `helm template` asks none, and a
namespace that is yet to be made has no account. */}}
{{- define "coplace.requireSecrets" -}}
{{- $namespace := .Release.Namespace }}
{{- if lookup "v1" "ServiceAccount" $namespace "default" }}
{{- range $secret := include "coplace.secrets" . | fromYamlArray }}
{{- $found := lookup "v1" "Secret" $namespace $secret.name }}
{{- $create := printf "kubectl --namespace %s create secret generic %s --from-literal=KEY=... or --from-file=KEY=..." $namespace $secret.name }}
{{- if not $found }}
{{- fail (printf "%s: there is no secret %s in the namespace %s: create it with the keys %s: %s" $secret.value $secret.name $namespace (join ", " $secret.keys) $create) }}
{{- end }}
{{- range $key := $secret.keys }}
{{- if not (hasKey ($found.data | default dict) $key) }}
{{- fail (printf "%s: the secret %s in the namespace %s has no key %s: %s" $secret.value $secret.name $namespace $key $create) }}
{{- end }}
{{- end }}
{{- end }}
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
