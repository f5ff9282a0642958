{{/*
Whether a feature gate is on: "true" or nothing. The rules are those of the processes: the gate's own setting counts
before AllAlpha and AllBeta, these before the default; the last of several settings counts; blanks do not matter.
*/}}
{{- define "kruise.gate" -}}
{{- $own := "" -}}
{{- $ofStage := "" -}}
{{- $stage := printf "All%s" .stage -}}
{{- range splitList "," (default "" .root.Values.featureGates | toString) -}}
{{- $pair := splitn "=" 2 . -}}
{{- $name := trim $pair._0 -}}
{{- $value := default "" $pair._1 | trim -}}
{{- if eq $name $.name -}}{{- $own = $value -}}{{- end -}}
{{- if eq $name $stage -}}{{- $ofStage = $value -}}{{- end -}}
{{- end -}}
{{- if has (coalesce $own $ofStage (toString .default)) (list "1" "t" "T" "true" "TRUE" "True") -}}true{{- end -}}
{{- end -}}

{{- define "kruise.gate.daemon" -}}
{{- include "kruise.gate" (dict "root" . "name" "KruiseDaemon" "stage" "Beta" "default" true) -}}
{{- end -}}

{{- define "kruise.gate.podWebhook" -}}
{{- include "kruise.gate" (dict "root" . "name" "PodWebhook" "stage" "Beta" "default" true) -}}
{{- end -}}

{{- define "kruise.gate.externalCerts" -}}
{{- include "kruise.gate" (dict "root" . "name" "EnableExternalCerts" "stage" "Alpha" "default" false) -}}
{{- end -}}

{{/*
Whether a rule of files/rights.yaml is needed: "true" or nothing. Its "when" names the gates of each who needs it: one gate of every group.
*/}}
{{- define "kruise.needed" -}}
{{- $needed := not .when -}}
{{- range $groups := .when -}}
{{- $has := true -}}
{{- range $group := $groups -}}
{{- $one := false -}}
{{- range $gate := $group -}}
{{- if include "kruise.gate" (dict "root" $.root "name" $gate.name "stage" $gate.stage "default" $gate.default) -}}{{- $one = true -}}{{- end -}}
{{- end -}}
{{- if not $one -}}{{- $has = false -}}{{- end -}}
{{- end -}}
{{- if $has -}}{{- $needed = true -}}{{- end -}}
{{- end -}}
{{- if $needed -}}true{{- end -}}
{{- end -}}

{{/* Those of some rules of files/rights.yaml that are needed. */}}
{{- define "kruise.rules" -}}
{{- range $rule := .rules }}
{{- if include "kruise.needed" (dict "root" $.root "when" $rule.when) }}
- apiGroups: {{ ternary $.root.Values.installation.roleListGroups $rule.apiGroups (has "*" $rule.resources) | toJson }}
  resources:
    {{- toYaml $rule.resources | nindent 4 }}
  verbs: {{ toJson $rule.verbs }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A version under development has no published image. */}}
{{- define "kruise.image" -}}
{{- $tag := toString (default "" .Values.manager.image.tag) -}}
{{- if not $tag -}}
{{- if contains "-" .Chart.AppVersion -}}
{{- fail (printf "version %s of this chart is under development and has no published image: set manager.image.repository and manager.image.tag" .Chart.AppVersion) -}}
{{- end -}}
{{- $tag = printf "v%s" .Chart.AppVersion -}}
{{- end -}}
{{- printf "%s:%s" .Values.manager.image.repository $tag -}}
{{- end -}}

{{/* Values of an older chart lack it, and "helm upgrade --reuse-values" brings no new defaults. */}}
{{- define "kruise.pullPolicy" -}}
{{- default "Always" .Values.manager.image.pullPolicy -}}
{{- end -}}

{{/* The check before an uninstall is part of the manager's image; a separate image needs both values. */}}
{{- define "kruise.hookImage" -}}
{{- with .Values.helmHooks.image -}}
{{- if .repository -}}{{ required "helmHooks.image.repository needs helmHooks.image.tag" .tag | toString | printf "%s:%s" .repository }}
{{- else -}}{{ include "kruise.image" $ }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Pod security level "restricted" asks of a container. */}}
{{- define "kruise.restricted" -}}
allowPrivilegeEscalation: false
capabilities:
  drop:
    - ALL
  add:
    - NET_BIND_SERVICE
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
{{- if semverCompare ">= 1.19-0" .Capabilities.KubeVersion.Version }}
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- end -}}
