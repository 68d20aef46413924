{{- define "zonewright.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "zonewright.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zonewright.labels" -}}
{{ include "zonewright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "zonewright.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What pods have in common: no rights, and the settings that are secret as a file that their group may read. */}}
{{- define "zonewright.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: settings
    secret:
      secretName: {{ required "existingSecret: name a Secret with the file zoned.yaml" .Values.existingSecret }}
      defaultMode: 0440
      items: [{key: {{ .Values.secretKey | quote }}, path: zoned.yaml}]
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {sizeLimit: 256Mi}
{{- end -}}

{{- define "zonewright.container" -}}
image: {{ include "zonewright.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: ZONED_DRAIN_SECONDS, value: {{ .Values.drainSeconds | toString | quote }}}
{{- range $name, $value := .Values.settings }}
{{- if ne (toString $value) "" }}
  - {name: ZONED_{{ upper $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}
volumeMounts:
  - {name: settings, mountPath: /run/secrets/zoned, readOnly: true}
  - {name: data, mountPath: /var/lib/zoned}
  - {name: tmp, mountPath: /tmp}
{{- end -}}
