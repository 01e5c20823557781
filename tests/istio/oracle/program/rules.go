package main

import (
	"sort"

	rbac "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbac "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbac "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Rules are those of one RBAC filter: for each, by its name, the fields that it looks at.
type Rules struct {
	Action string              `json:"action"`
	Shadow bool                `json:"shadow,omitempty"`
	Fields map[string][]string `json:"fields"`
}

func rulesOf(filter proto.Message) ([]Rules, bool) {
	var enforced, shadow *rbac.RBAC
	switch settings := filter.(type) {
	case *httprbac.RBAC:
		enforced, shadow = settings.Rules, settings.ShadowRules
	case *tcprbac.RBAC:
		enforced, shadow = settings.Rules, settings.ShadowRules
	default:
		return nil, false
	}
	var made []Rules
	if enforced != nil {
		made = append(made, rulesIn(enforced))
	}
	if shadow != nil {
		rules := rulesIn(shadow)
		rules.Shadow = true
		made = append(made, rules)
	}
	return made, true
}

func rulesIn(of *rbac.RBAC) Rules {
	made := Rules{Action: of.Action.String(), Fields: map[string][]string{}}
	for name, policy := range of.Policies {
		fields := map[string]bool{}
		for _, permission := range policy.Permissions {
			collect(permission.ProtoReflect(), "rule", "", fields)
		}
		for _, principal := range policy.Principals {
			collect(principal.ProtoReflect(), "identifier", "", fields)
		}
		made.Fields[name] = []string{}
		for field := range fields {
			made.Fields[name] = append(made.Fields[name], field)
		}
		sort.Strings(made.Fields[name])
	}
	return made
}

// collect adds the names of the fields that a permission or a principal looks at. `any` is none, and `not any` is never.
func collect(of protoreflect.Message, choice, prefix string, into map[string]bool) {
	field := of.WhichOneof(of.Descriptor().Oneofs().ByName(protoreflect.Name(choice)))
	if field == nil {
		return
	}
	switch name := string(field.Name()); name {
	case "and_rules", "or_rules", "and_ids", "or_ids":
		inner := of.Get(field).Message()
		list := inner.Get(inner.Descriptor().Fields().Get(0)).List()
		for i := 0; i < list.Len(); i++ {
			collect(list.Get(i).Message(), choice, prefix, into)
		}
	case "not_rule", "not_id":
		collect(of.Get(field).Message(), choice, prefix+"not ", into)
	case "any":
		if prefix != "" {
			into["never"] = true
		}
	case "header":
		header := of.Get(field).Message()
		into[prefix+"header "+header.Get(header.Descriptor().Fields().ByName("name")).String()] = true
	default:
		into[prefix+name] = true
	}
}
