package main

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

type yamlQuestion struct {
	YAML string `json:"yaml"`
}

// runYAML reads as sigs.k8s.io/yaml does, whatever the text starts with. kubectl
// takes a text that starts with `{` for JSON before it gets here, but the cases
// that this oracle must reproduce don't: in them `{a: 1,}` is a value.
func runYAML([]string) int {
	return serve(func(line []byte) answer {
		var question yamlQuestion
		if err := json.Unmarshal(line, &question); err != nil {
			return failed(fmt.Errorf("not a question: %w", err))
		}
		value, err := yaml.YAMLToJSON([]byte(question.YAML))
		if err != nil {
			return failed(err)
		}
		return answer{Value: value}
	})
}
