{{/* Gives Jobs back to Kubernetes before the release goes, while its processes report that, and those that came meanwhile
after it: what this needs comes with the hook, and goes with it. `root`, the `rules` of its role, the `file` of its clusters. */}}
{{- define "coplace.kubernetesRelease" -}}
{{- $root := .root }}
{{- $values := $root.Values.kubernetes }}
{{- $of := dict "root" $root "component" "kubernetes-release" "own" $values }}
{{- $name := printf "%s-kubernetes-release" (include "coplace.name" $root) }}
{{- $metadata := dict "name" $name "labels" (include "coplace.labels" $of | fromYaml) "annotations" (dict "helm.sh/hook" "pre-delete,post-delete" "helm.sh/hook-weight" "-1" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded") }}
{{- $global := merge (dict "name" (printf "%s-%s" $root.Release.Namespace $name)) $metadata }}
apiVersion: v1
kind: ServiceAccount
metadata: {{- toYaml $metadata | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{- toYaml $global | nindent 2 }}
rules: {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{- toYaml $global | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $global.name }}}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- $ofExecutors := $root.Files.Get "files/executor-rules.yaml" | fromYaml }}
{{- range $values.clusters }}
{{- with .executor }}
{{- $there := merge (dict "namespace" . "name" "coplace-release") $metadata }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- toYaml $there | nindent 2 }}
rules: {{- toYaml $ofExecutors.manager | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- toYaml $there | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: coplace-release}
subjects:
  - {kind: ServiceAccount, name: {{ $name }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{- toYaml $metadata | nindent 2 }}
data:
  clusters.yaml: |
    {{- .file | toYaml | nindent 4 }}
{{- if $root.Values.networkPolicy.enabled }}
{{- $apiServers := dict "ports" (list (dict "port" 443 "protocol" "TCP") (dict "port" 6443 "protocol" "TCP")) }}
{{- with $values.apiServers }}{{ $_ := set $apiServers "to" . }}{{ end }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{- toYaml $metadata | nindent 2 }}
spec:
  podSelector:
    matchLabels: {{- include "coplace.selector" $of | nindent 6 }}
  policyTypes: [Egress]
  egress:
    - {{- toYaml $apiServers | nindent 6 }}
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" $of | nindent 4 }}
  annotations:
    helm.sh/hook: pre-delete,post-delete
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-failed
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 240
  template:
    metadata:
      {{- include "coplace.podMetadata" $of | nindent 6 }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      securityContext: {{- include "coplace.podSecurity" 10001 | nindent 8 }}
      {{- include "coplace.scheduling" $of | nindent 6 }}
      containers:
        - name: release
          image: {{ include "coplace.image" (dict "root" $root "extra" "kubernetes") }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [coplace, kubernetes, release, --all]
          securityContext: {{- include "coplace.containerSecurity" $root | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          env:
            - {name: COPLACE_KUBERNETES_SITE, value: {{ $values.site | quote }}}
            - {name: COPLACE_KUBERNETES_QUEUE, value: {{ $values.queue | quote }}}
            - {name: COPLACE_KUBERNETES_CLUSTERS_FILE, value: /etc/coplace/clusters/clusters.yaml}
            {{- range $variable, $value := $values.env }}
            - {name: {{ $variable }}, value: {{ $value | quote }}}
            {{- end }}
          resources:
            requests: {cpu: 100m, memory: 128Mi}
            limits: {memory: 512Mi}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            {{- include "coplace.extraMounts" $of | nindent 12 }}
            - {name: clusters, mountPath: /etc/coplace/clusters, readOnly: true}
            {{- if $values.kubeconfigSecret }}
            - {name: kubeconfig, mountPath: /etc/coplace/kubeconfig, readOnly: true}
            {{- end }}
      volumes:
        - {name: tmp, emptyDir: {sizeLimit: 64Mi}}
        {{- include "coplace.extraVolumes" $of | nindent 8 }}
        - {name: clusters, configMap: {name: {{ $name }}}}
        {{- with $values.kubeconfigSecret }}
        - {name: kubeconfig, secret: {secretName: {{ . }}, defaultMode: 0440}}
        {{- end }}
{{- end -}}
