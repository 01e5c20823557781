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

{{/* The namespaces that take part. Its own one and those of Kubernetes itself do not, whatever their labels say: the server
has to start without itself, and so do the parts of Kubernetes. admc/kubernetes/cluster/names.py has the same names. */}}
{{- define "admc.namespaces" -}}
matchLabels:
  admc.dev/controller: {{ .Values.installation | quote }}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [{{ .Release.Namespace | quote }}, kube-node-lease, kube-public, kube-system]
{{- end }}
