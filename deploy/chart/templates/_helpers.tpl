{{/* The name of all objects of an installation. The server derives those that it writes itself from the same name. */}}
{{- define "admc.name" -}}
admc-{{ .Values.installation }}
{{- end }}

{{/* By these labels the Deployment finds its pods: they never change. */}}
{{- define "admc.selector" -}}
app.kubernetes.io/name: admc
app.kubernetes.io/instance: {{ .Values.installation | quote }}
{{- end }}

{{- define "admc.labels" -}}
{{ include "admc.selector" . }}
app.kubernetes.io/part-of: admc
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "admc.subject" -}}
- kind: ServiceAccount
  name: {{ include "admc.name" . }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
