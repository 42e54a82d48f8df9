{{/* What executors of other clusters need in this one: of each a namespace, with an account that may fetch its own
assignments and report, and the rights of the resource manager there. `root`, `component`. */}}
{{- define "coplace.kubernetesExecutors" -}}
{{- $root := .root }}
{{- $labels := include "coplace.labels" . | fromYaml }}
{{- $manager := printf "%s-kubernetes" (include "coplace.name" $root) }}
{{- $rules := $root.Files.Get "files/executor-rules.yaml" | fromYaml }}
{{- range $root.Values.kubernetes.clusters }}
{{- with .executor }}
{{- $metadata := dict "name" "executor" "namespace" . "labels" $labels }}
{{- $own := dict "name" "coplace" "namespace" . "labels" $labels }}
apiVersion: v1
kind: Namespace
metadata:
  name: {{ . }}
  labels: {{- toYaml $labels | nindent 4 }}
  # Assignments outlive the release, since they say what runs.
  annotations: {helm.sh/resource-policy: keep}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{- toYaml $metadata | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- toYaml $metadata | nindent 2 }}
rules: {{- toYaml $rules.executor | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- toYaml $metadata | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: executor}
subjects:
  - {kind: ServiceAccount, name: executor, namespace: {{ . }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- toYaml $own | nindent 2 }}
rules: {{- toYaml $rules.manager | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- toYaml $own | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: coplace}
subjects:
  - {kind: ServiceAccount, name: {{ $manager }}, namespace: {{ $root.Release.Namespace }}}
---
{{- end }}
{{- end }}
{{- end -}}
