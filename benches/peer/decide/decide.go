// Package decide makes the same decision as podlayer, as people would write it
// today: pod in, strategic merge per layer, RFC 6902 operations out.
package decide

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// annotation carries the layer of one pod, applied after those of the folder.
const annotation = "podlayer.dev/pod-spec-patch"

// Layers are the pod-spec patches in the order in which they are applied.
type Layers struct {
	json [][]byte
	maps []map[string]any
	meta strategicpatch.PatchMetaFromStruct
}

// Load reads every *.yaml of dir, sorted by file name, and converts it to JSON once.
func Load(dir string) (*Layers, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	l := &Layers{}
	if l.meta, err = strategicpatch.NewPatchMetaFromStruct(corev1.PodSpec{}); err != nil {
		return nil, err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		j, err := yaml.YAMLToJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		var m map[string]any
		if err := utiljson.Unmarshal(j, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		l.json = append(l.json, j)
		l.maps = append(l.maps, m)
	}
	return l, nil
}

type podHead struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

func annotationLayer(ann map[string]string) ([]byte, error) {
	p, ok := ann[annotation]
	if !ok {
		return nil, nil
	}
	j, err := yaml.YAMLToJSON([]byte(p))
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotation, err)
	}
	return j, nil
}

func (l *Layers) patchSpec(spec []byte, ann map[string]string) ([]byte, error) {
	layers := l.json
	extra, err := annotationLayer(ann)
	if err != nil {
		return nil, err
	}
	if extra != nil {
		layers = append(slices.Clip(layers), extra)
	}
	for _, p := range layers {
		if spec, err = strategicpatch.StrategicMergePatch(spec, p, corev1.PodSpec{}); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// PatchPod reads nothing of the object again but its spec.
func (l *Layers) PatchPod(raw []byte) ([]byte, error) {
	var head podHead
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	spec, err := l.patchSpec(head.Spec, head.Metadata.Annotations)
	if err != nil {
		return nil, err
	}
	obj["spec"] = spec
	return json.Marshal(obj)
}

// Raw decides as a webhook built on controller-runtime does: bytes to bytes for
// each layer, then the difference of the whole objects, as its
// PatchResponseFromRaw makes it.
func (l *Layers) Raw(raw []byte) ([]jsonpatch.Operation, error) {
	patched, err := l.PatchPod(raw)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreatePatch(raw, patched)
}

// Tuned decides with the same libraries, used as sparingly as they allow: one
// parse of the spec, all layers on the parsed map, the difference of the specs.
func (l *Layers) Tuned(raw []byte) ([]jsonpatch.Operation, error) {
	var head podHead
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	cur := map[string]any{}
	if err := utiljson.Unmarshal(head.Spec, &cur); err != nil {
		return nil, err
	}
	maps := l.maps
	extra, err := annotationLayer(head.Metadata.Annotations)
	if err != nil {
		return nil, err
	}
	if extra != nil {
		m := map[string]any{}
		if err := utiljson.Unmarshal(extra, &m); err != nil {
			return nil, err
		}
		maps = append(slices.Clip(maps), m)
	}
	for _, p := range maps {
		if cur, err = strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(cur, runtime.DeepCopyJSON(p), l.meta); err != nil {
			return nil, err
		}
	}
	patched, err := json.Marshal(cur)
	if err != nil {
		return nil, err
	}
	ops, err := jsonpatch.CreatePatch(head.Spec, patched)
	if err != nil {
		return nil, err
	}
	for i := range ops {
		ops[i].Path = "/spec" + ops[i].Path
	}
	return ops, nil
}
