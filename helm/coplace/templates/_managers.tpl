{{/* What each resource manager of the chart has: `root`, its `component`. */}}

{{- define "coplace.managerProbes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "coplace.managerService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "coplace.name" .root }}-{{ .component }}
  labels: {{- include "coplace.labels" . | nindent 4 }}
spec:
  clusterIP: None
  selector: {{- include "coplace.selector" . | nindent 4 }}
  ports:
    - {name: metrics, port: 8080, targetPort: metrics}
{{- end -}}

{{/* Whom it may reach: what it manages, by the rule `egress`, and the services that are `asked`, which
let it in, whoever else `networkPolicy.clients` names. */}}
{{- define "coplace.managerPolicies" -}}
{{- $name := printf "%s-%s" (include "coplace.name" .root) .component }}
{{- $release := dict "app.kubernetes.io/name" "coplace" "app.kubernetes.io/instance" .root.Release.Name }}
{{- $monitoring := list (dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" "monitoring"))) }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "coplace.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - from: {{- .root.Values.networkPolicy.monitoring | default $monitoring | toYaml | nindent 8 }}
      ports: [{port: metrics, protocol: TCP}]
  egress:
    - {{- toYaml .egress | nindent 6 }}
    - to:
        - podSelector:
            matchLabels: {{- toYaml $release | nindent 14 }}
            matchExpressions:
              - {key: app.kubernetes.io/component, operator: In, values: {{ toJson .asked }}}
      ports: [{port: grpc, protocol: TCP}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}-client
  labels: {{- include "coplace.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- toYaml $release | nindent 6 }}
    matchExpressions:
      - {key: app.kubernetes.io/component, operator: In, values: {{ toJson .asked }}}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels: {{- include "coplace.selector" . | nindent 14 }}
      ports: [{port: grpc, protocol: TCP}]
{{- end -}}
