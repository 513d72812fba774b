package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// graphType is one type of the graph. Which of its fields are set depends on the
// kind; the order of the fields is the order in which they are printed.
type graphType struct {
	Kind string `json:"kind"`
	Elem string `json:"elem,omitempty"`
	Name string `json:"name,omitempty"`
	// The values that the API server takes, sorted, where it doesn't take any; one
	// that ends in a dash stands for all that start with it.
	Values []string              `json:"values,omitempty"`
	Fields map[string]graphField `json:"fields,omitempty"`
}

// graphField is one field of a struct: its type, and the tags that a strategic
// merge goes by.
type graphField struct {
	Type     string `json:"t"`
	Strategy string `json:"s,omitempty"`
	Key      string `json:"k,omitempty"`
}

// graph holds every type that was reached so far, by Go's short name for it.
type graph struct {
	types map[string]graphType
	// seen tells apart two types that share a short name: there are two packages
	// called v1, of Pod and of ObjectMeta.
	seen map[string]reflect.Type
	// definitions are those that the API server publishes as its OpenAPI.
	definitions map[string]common.OpenAPIDefinition
}

// unmarked are the types of which validation takes these values only, though they
// lack the mark by which the API server's OpenAPI would say so
// (k8s.io/kubernetes, pkg/apis/core/validation). Only ones that are spoken of in
// a Pod's spec.
var unmarked = map[reflect.Type][]string{
	reflect.TypeFor[corev1.ContainerRestartPolicy](): {
		string(corev1.ContainerRestartPolicyAlways), string(corev1.ContainerRestartPolicyNever),
		string(corev1.ContainerRestartPolicyOnFailure),
	},
	reflect.TypeFor[corev1.ContainerRestartRuleOnExitCodesOperator](): {
		string(corev1.ContainerRestartRuleOnExitCodesOpIn), string(corev1.ContainerRestartRuleOnExitCodesOpNotIn),
	},
	reflect.TypeFor[corev1.OSName](): {string(corev1.Linux), string(corev1.Windows)},
	reflect.TypeFor[corev1.PodSELinuxChangePolicy](): {
		string(corev1.SELinuxChangePolicyMountOption), string(corev1.SELinuxChangePolicyRecursive),
	},
	reflect.TypeFor[corev1.RecursiveReadOnlyMode](): {
		string(corev1.RecursiveReadOnlyDisabled), string(corev1.RecursiveReadOnlyEnabled),
		string(corev1.RecursiveReadOnlyIfPossible),
	},
	reflect.TypeFor[corev1.ResourceResizeRestartPolicy](): {
		string(corev1.NotRequired), string(corev1.RestartContainer),
	},
	reflect.TypeFor[corev1.StorageMedium](): {
		string(corev1.StorageMediumHugePages), string(corev1.StorageMediumHugePagesPrefix),
		string(corev1.StorageMediumMemory),
	},
	reflect.TypeFor[metav1.LabelSelectorOperator](): {
		string(metav1.LabelSelectorOpDoesNotExist), string(metav1.LabelSelectorOpExists),
		string(metav1.LabelSelectorOpIn), string(metav1.LabelSelectorOpNotIn),
	},
}

// runSchema prints all types that a Pod is made of, which podlayer keeps as
// src/schema/pod.json. They are read off the Go types and not off an OpenAPI
// document, for the types are what the API server and kubectl merge by; only the
// values that a type of strings may have are what the OpenAPI says.
func runSchema([]string) int {
	reached := graph{
		types: map[string]graphType{}, seen: map[string]reflect.Type{},
		definitions: openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) }),
	}
	if err := reached.add(reflect.TypeFor[corev1.Pod]()); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		return 1
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(reached.types); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		return 1
	}
	return 0
}

// add takes in a type and all that it refers to.
func (g *graph) add(typ reflect.Type) error {
	name := typ.String()
	if known, ok := g.seen[name]; ok {
		if known != typ {
			return fmt.Errorf("%s is in both %s and %s: the graph can't tell them apart",
				name, known.PkgPath(), typ.PkgPath())
		}
		return nil
	}
	g.seen[name] = typ

	entry := graphType{Kind: typ.Kind().String()}
	switch typ.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.String:
	case reflect.Map, reflect.Pointer, reflect.Slice:
		if typ.Kind() == reflect.Map && typ.Key().Kind() != reflect.String {
			return fmt.Errorf("%s has keys that aren't strings", name)
		}
		entry.Elem = typ.Elem().String()
		if err := g.add(typ.Elem()); err != nil {
			return err
		}
	case reflect.Struct:
		entry.Name = typ.Name()
		entry.Fields = map[string]graphField{}
		if err := g.addFields(typ, entry.Fields); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is of kind %s, which no field of a Pod had so far", name, typ.Kind())
	}
	g.types[name] = entry
	return nil
}

// addFields collects the fields that encoding/json sees; those of an embedded
// struct stand among the ones of the struct around it.
func (g *graph) addFields(typ reflect.Type, fields map[string]graphField) error {
	for index := range typ.NumField() {
		field := typ.Field(index)
		tag := field.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case !field.IsExported() || tag == "-":
			continue
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Pointer:
			return fmt.Errorf("%s embeds the pointer %s, which nothing of a Pod did so far", typ, field.Type)
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			if err := g.addFields(field.Type, fields); err != nil {
				return err
			}
			continue
		case name == "":
			name = field.Name
		}
		if _, taken := fields[name]; taken {
			return fmt.Errorf("%s has two fields called %s", typ, name)
		}
		fields[name] = graphField{
			Type:     field.Type.String(),
			Strategy: field.Tag.Get("patchStrategy"),
			Key:      field.Tag.Get("patchMergeKey"),
		}
		if err := g.add(field.Type); err != nil {
			return err
		}
		if err := g.addValues(typ, name, field.Type); err != nil {
			return err
		}
	}
	return nil
}

// addValues notes which values a field's type may have. The OpenAPI says so of
// each field, and means its type.
func (g *graph) addValues(owner reflect.Type, field string, typ reflect.Type) error {
	model := owner.PkgPath() + "." + owner.Name()
	if named, ok := reflect.Zero(owner).Interface().(interface{ OpenAPIModelName() string }); ok {
		model = named.OpenAPIModelName()
	}
	definition := g.definitions[model].Schema.Properties[field]
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
		if definition.Items != nil && definition.Items.Schema != nil {
			definition = *definition.Items.Schema
		}
	}
	// Nobody writes a status, and its words grow with every release.
	if typ.Kind() != reflect.String || typ.Name() == "string" || strings.HasSuffix(owner.Name(), "Status") {
		return nil
	}
	values := unmarked[typ]
	for _, value := range definition.Enum {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s of %s may be %v, which is no string", field, owner, value)
		}
		values = append(values, text)
	}
	entry := g.types[typ.String()]
	if values == nil || entry.Values != nil {
		return nil
	}
	entry.Values = slices.Compact(slices.Sorted(slices.Values(values)))
	g.types[typ.String()] = entry
	return nil
}
