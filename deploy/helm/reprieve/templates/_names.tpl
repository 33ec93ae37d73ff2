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

{{/* The Secret with the certificate of the endpoint, and whether it is used: else the scheduler makes one at its start. */}}
{{- define "reprieve.tls" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" .Values.name) }}
{{- end }}
{{- define "reprieve.usesTls" -}}
{{- if or .Values.tls.secretName .Values.tls.certManager (and .Values.monitoring.enabled .Values.monitoring.serviceMonitor.enabled) }}yes{{- end }}
{{- end }}

{{/* The scheduler's configuration: what is given, with the lease that the Role allows. */}}
{{- define "reprieve.config" -}}
{{- $lease := dict "leaderElect" true "resourceNamespace" .Release.Namespace "resourceName" .Values.name -}}
{{- $rest := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" "leaderElection" $lease -}}
{{- toYaml (mergeOverwrite $rest (deepCopy .Values.config)) -}}
{{- end }}
