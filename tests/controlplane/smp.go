package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// smpQuestion keeps both documents as bytes: the library itself must decide
// which numbers are int64 and which float64, for they never compare equal.
type smpQuestion struct {
	Root     string          `json:"root"`
	Original json.RawMessage `json:"original"`
	Patch    json.RawMessage `json:"patch"`
}

// schemas are the Go structs whose tags name merge keys and strategies, as
// `kubectl patch` and the API server use them.
var schemas = map[string]strategicpatch.PatchMetaFromStruct{
	"pod":     mustSchema(corev1.Pod{}),
	"podspec": mustSchema(corev1.PodSpec{}),
}

func mustSchema(root any) strategicpatch.PatchMetaFromStruct {
	schema, err := strategicpatch.NewPatchMetaFromStruct(root)
	if err != nil {
		panic(err) // only for something that is no struct
	}
	return schema
}

func runSMP([]string) int {
	return serve(func(line []byte) answer {
		var question smpQuestion
		if err := json.Unmarshal(line, &question); err != nil {
			return failed(fmt.Errorf("not a question: %w", err))
		}
		schema, known := schemas[question.Root]
		if !known {
			return failed(fmt.Errorf(`root must be "pod" or "podspec", not %q`, question.Root))
		}
		result, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(
			orEmpty(question.Original), question.Patch, schema)
		if err != nil {
			return failed(err)
		}
		return answer{Result: result}
	})
}

// orEmpty reads an original of null as the library reads an absent one. It would
// panic on its own (assignment to a nil map), but no client ever gets there:
// they all start from an object.
func orEmpty(document json.RawMessage) []byte {
	if string(document) == "null" {
		return nil
	}
	return document
}
