// Command peer makes decisions by the line, so that whoever measures it can take
// turns with it: a question in JSON on stdin, its answer in JSON on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"

	"gomodules.xyz/jsonpatch/v2"

	"podlayer.dev/peer/decide"
)

// question asks for a number of decisions, one after the other.
type question struct {
	// Object is a file with the pod, as the API server sends it.
	Object string `json:"object"`
	// Layers is a folder with one bare patch per file, applied in the order of
	// their names.
	Layers string `json:"layers"`
	// Mode is raw or tuned, see package decide.
	Mode string `json:"mode"`
	// Decisions is how many are made in the measured time.
	Decisions int `json:"decisions"`
}

// answer has either an error or the rest.
type answer struct {
	// Nanoseconds is what one decision took, from the object's bytes to those of
	// the patch.
	Nanoseconds float64 `json:"nanoseconds,omitempty"`
	// Patch is what each decision came to.
	Patch json.RawMessage `json:"patch,omitempty"`
	Error string          `json:"error,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		reply, err := ask(lines.Bytes())
		if err != nil {
			reply = answer{Error: err.Error()}
		}
		if err := answers.Encode(reply); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
	}
}

func ask(line []byte) (answer, error) {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{}, fmt.Errorf("not a question: %w", err)
	}
	object, err := os.ReadFile(q.Object)
	if err != nil {
		return answer{}, err
	}
	layers, err := decide.Load(q.Layers)
	if err != nil {
		return answer{}, err
	}
	made := map[string]func([]byte) ([]jsonpatch.Operation, error){"raw": layers.Raw, "tuned": layers.Tuned}
	decideOnce, known := made[q.Mode]
	if !known {
		return answer{}, fmt.Errorf("mode must be raw or tuned, not %q", q.Mode)
	}

	// What reading left behind is collected before the clock runs, and what the
	// decisions left behind before the other side's turn; what is collected while
	// they are made is part of their price.
	runtime.GC()
	defer runtime.GC()
	var patch []byte
	start := time.Now()
	for range q.Decisions {
		operations, err := decideOnce(object)
		if err != nil {
			return answer{}, err
		}
		if patch, err = json.Marshal(operations); err != nil {
			return answer{}, err
		}
	}
	taken := time.Since(start)
	return answer{Nanoseconds: float64(taken.Nanoseconds()) / float64(max(q.Decisions, 1)), Patch: patch}, nil
}
