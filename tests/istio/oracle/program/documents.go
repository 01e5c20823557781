package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/schema/collections"
)

// Verdict says whether `istioctl validate` would refuse a document, and why: by its form, if it does not fit the types
// of its fields, or by its meaning.
type Verdict struct {
	Known   bool   `json:"known"`
	Form    string `json:"form,omitempty"`
	Meaning string `json:"meaning,omitempty"`
}

var topLevel = map[string]bool{"apiVersion": true, "kind": true, "metadata": true, "spec": true, "status": true}

// verdict takes the steps of the command `istioctl validate`: the strict reader of each kind, then its validation.
func verdict(text json.RawMessage) Verdict {
	var object unstructured.Unstructured
	if err := json.Unmarshal(text, &object.Object); err != nil {
		return Verdict{Form: err.Error()}
	}
	of := object.GroupVersionKind()
	schema, known := collections.Pilot.FindByGroupVersionAliasesKind(config.GroupVersionKind(of))
	if !known {
		return Verdict{}
	}
	for field := range object.Object {
		if !topLevel[field] {
			return Verdict{Known: true, Form: fmt.Sprintf("unknown field %q", field)}
		}
	}
	spec, err := schema.NewInstance()
	if err != nil {
		return Verdict{Known: true, Form: err.Error()}
	}
	data, err := json.Marshal(object.Object["spec"])
	if err != nil {
		return Verdict{Known: true, Form: err.Error()}
	}
	if err := config.ApplyJSONStrict(spec, string(data)); err != nil {
		return Verdict{Known: true, Form: oneLine(err)}
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	_, err = schema.ValidateConfig(config.Config{
		Meta: config.Meta{
			GroupVersionKind: schema.GroupVersionKind(),
			Name:             object.GetName(),
			Namespace:        namespace,
			Labels:           object.GetLabels(),
			Annotations:      object.GetAnnotations(),
		},
		Spec: spec,
	})
	return Verdict{Known: true, Meaning: oneLine(err)}
}

// oneLine is the message of an error. Protobuf varies the blanks in its messages.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\u00a0", " ")), " ")
}
