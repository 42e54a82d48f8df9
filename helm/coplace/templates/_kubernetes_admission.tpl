{{/* What users may write to Jobs of the queue: `root`, `component`. Kubernetes 1.30 and newer ask such a policy. */}}
{{- define "coplace.kubernetesAdmission" -}}
{{- $root := .root }}
{{- $name := printf "%s-%s-jobs" $root.Release.Namespace (include "coplace.name" $root) }}
{{- $own := printf "system:serviceaccount:%s:%s-kubernetes" $root.Release.Namespace (include "coplace.name" $root) }}
{{- $accounts := concat (list $own (printf "%s-release" $own)) $root.Values.kubernetes.admission.otherAccounts }}
{{- $admission := $root.Values.kubernetes.admission }}
{{- range $root.Values.kubernetes.clusters }}
{{- if and .kueue_queue (not .executor) }}{{ $accounts = append $accounts "system:serviceaccount:kueue-system:kueue-controller-manager" | uniq }}{{ end }}
{{- end }}
{{- $queues := prepend $admission.otherQueues $root.Values.kubernetes.queue }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [batch], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [jobs]}
  matchConditions:
    - name: is-not-by-coplace
      expression: "!(request.userInfo.username in {{ $accounts | toJson | replace "\"" "'" }})"
  variables:
    - name: queue
      expression: "object.metadata.?labels[?'coplace.io/queue-name'].orValue('')"
    - name: isNew
      expression: "request.operation == 'CREATE'"
    - name: own
      expression: "['job-id', 'claim', 'stop', 'outcome', 'problem', 'record', 'copy-of', 'grant'].map(each, 'coplace.io/' + each)"
  validations:
    - expression: "variables.queue == '' || variables.queue in {{ $queues | toJson | replace "\"" "'" }}"
      messageExpression: "'the queue ' + variables.queue + ' is unknown: coplace.io/queue-name is one of {{ join ", " $queues }}'"
    - expression: "variables.queue == '' || object.spec.?suspend.orValue(false) || (!variables.isNew && !oldObject.spec.?suspend.orValue(false))"
      message: "spec.suspend must be true in a Job of a queue of Coplace: it is let run where and when that is decided"
    - expression: "variables.own.all(name, object.metadata.?annotations[?name] == (variables.isNew ? optional.none() : oldObject.metadata.?annotations[?name]))"
      message: "annotations of coplace.io that say what became of a Job are Coplace's own"
    - expression: "variables.own.all(name, object.metadata.?labels[?name] == (variables.isNew ? optional.none() : oldObject.metadata.?labels[?name]))"
      message: "labels of coplace.io that say what became of a Job are Coplace's own"
    - expression: "variables.own.all(name, object.spec.template.metadata.?labels[?name] == (variables.isNew ? optional.none() : oldObject.spec.template.metadata.?labels[?name]))"
      message: "labels of coplace.io that say what pods run for are Coplace's own"
    - expression: "('coplace.io/told' in object.metadata.?finalizers.orValue([])) == (!variables.isNew && 'coplace.io/told' in oldObject.metadata.?finalizers.orValue([]))"
      message: "the finalizer coplace.io/told is Coplace's own: it goes once the end of the Job was published"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}
  labels: {{- include "coplace.labels" . | nindent 4 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
{{- end }}
