{{/* A resource manager of Kubernetes clusters: `root`, `component`, `values`, the `rules` of its role, the
`file` of its clusters, and other `settings` by their names. */}}
{{- define "coplace.clusterManager" -}}
{{- $root := .root }}
{{- $component := .component }}
{{- $values := .values }}
{{- $rules := .rules }}
{{- $file := .file }}
{{- $of := dict "root" $root "component" $component "own" $values }}
{{- $name := printf "%s-%s" (include "coplace.name" $root) $component }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $root.Release.Namespace }}-{{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
rules:
  {{- toYaml $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $root.Release.Namespace }}-{{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $root.Release.Namespace }}-{{ $name }}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
data:
  clusters.yaml: |
    {{- $file | toYaml | nindent 4 }}
---
{{- if gt (int $values.replicas) 1 }}
# The Lease by which one process leads. Where the first cluster is another one, its account needs this there.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-leader
  labels: {{- include "coplace.labels" $of | nindent 4 }}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [{{ $name }}], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}-leader
  labels: {{- include "coplace.labels" $of | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}-leader}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "coplace.selector" $of | nindent 6 }}
---
{{- end }}
# Of one name there is one process: Kubernetes starts another only when it has ended.
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  serviceName: {{ $name }}
  selector:
    matchLabels: {{- include "coplace.selector" $of | nindent 6 }}
  template:
    metadata:
      {{- include "coplace.podMetadata" (merge (dict "annotations" (printf "checksum/clusters: %s" (toYaml $file | sha256sum))) $of) | nindent 6 }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30
      securityContext: {{- include "coplace.podSecurity" 10001 | nindent 8 }}
      {{- include "coplace.scheduling" $of | nindent 6 }}
      {{- include "coplace.spread" $of | nindent 6 }}
      containers:
        - name: {{ $component }}
          image: {{ include "coplace.image" (dict "root" $root "extra" "kubernetes") }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [python, -m, services.{{ $component }}]
          securityContext: {{- include "coplace.containerSecurity" $root | nindent 12 }}
          env: {{- include "coplace.lastOfEach" (include "coplace.clusterManagerEnv" .) | nindent 12 }}
          ports:
            - {name: metrics, containerPort: 8080}
          {{- include "coplace.managerProbes" $root | nindent 10 }}
          resources: {{- toYaml $values.resources | nindent 12 }}
          volumeMounts:
            {{- include "coplace.mounts" $of | nindent 12 }}
            - {name: clusters, mountPath: /etc/coplace/clusters, readOnly: true}
            {{- if $values.kubeconfigSecret }}
            - {name: kubeconfig, mountPath: /etc/coplace/kubeconfig, readOnly: true}
            {{- end }}
      volumes:
        {{- include "coplace.volumes" $of | nindent 8 }}
        - {name: clusters, configMap: {name: {{ $name }}}}
        {{- with $values.kubeconfigSecret }}
        - {name: kubeconfig, secret: {secretName: {{ . }}, defaultMode: 0440}}
        {{- end }}
---
{{ include "coplace.managerService" $of }}
{{- if $root.Values.networkPolicy.enabled }}
{{- $apiServers := dict "ports" (list (dict "port" 443 "protocol" "TCP") (dict "port" 6443 "protocol" "TCP")) }}
{{- with $values.apiServers }}{{ $_ := set $apiServers "to" . }}{{ end }}
---
# API servers, of other clusters too: where they are, `{{ $component }}.apiServers` says.
{{ include "coplace.managerPolicies" (merge (dict "egress" $apiServers "asked" (list "ingest" "placement")) $of) }}
{{- end }}
{{- end -}}

{{/* Its variables. */}}
{{- define "coplace.clusterManagerEnv" -}}
{{- $root := .root }}
{{- $component := .component }}
{{- $values := .values }}
{{- $settings := .settings }}
{{- $prefix := printf "COPLACE_%s" (upper $component) }}
{{- include "coplace.serverEnv" (dict "root" $root "principal" $component "redis" false) | nindent 0 }}
- {name: COPLACE_HTTP_HOST, value: "0.0.0.0"}
- {name: COPLACE_HTTP_PORT, value: "8080"}
{{- include "coplace.grpcTls" $root | nindent 0 }}
- {name: {{ $prefix }}_SITE, value: {{ $values.site | quote }}}
{{- if gt (int $values.replicas) 1 }}
- {name: {{ $prefix }}_LEADER_LEASE, value: "{{ $root.Release.Namespace }}/{{ include "coplace.name" $root }}-{{ $component }}"}
- {name: {{ $prefix }}_TAKEOVER_S, value: {{ $values.takeover_s | quote }}}
{{- end }}
{{- range $variable, $value := $settings }}
- {name: {{ $prefix }}_{{ $variable }}, value: {{ $value | quote }}}
{{- end }}
- {name: {{ $prefix }}_CLUSTERS_FILE, value: /etc/coplace/clusters/clusters.yaml}
- {name: {{ $prefix }}_INGEST_ADDRESS, value: "{{ include "coplace.name" $root }}-ingest:50051"}
- {name: {{ $prefix }}_PLACEMENT_ADDRESS, value: {{ ternary $root.Values.hub.placement (printf "%s-placement:50053" (include "coplace.name" $root)) (eq $root.Values.role "site") | quote }}}
{{- range $variable, $value := $values.env }}
- {name: {{ $variable }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}
