{{/* Labels of every object. */}}
{{- define "reprieve.labels" -}}
app.kubernetes.io/name: reprieve
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of the pods, by which they are selected. */}}
{{- define "reprieve.selector" -}}
app.kubernetes.io/name: reprieve
app.kubernetes.io/component: scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reprieve.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Values.name }}
{{- end }}

{{/* The scheduler's configuration: what is given, with the lease that the Role allows. */}}
{{- define "reprieve.config" -}}
{{- $lease := dict "leaderElect" true "resourceNamespace" .Release.Namespace "resourceName" .Values.name -}}
{{- $rest := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $lease -}}
{{- toYaml (mergeOverwrite $rest (deepCopy .Values.config)) -}}
{{- end }}
