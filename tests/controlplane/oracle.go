package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// answer is one output line of an oracle: exactly one field is set.
type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// serve answers each line of stdin with one line, in order.
func serve(ask func(line []byte) answer) int {
	if err := serveOn(os.Stdin, os.Stdout, ask); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		return 1
	}
	return 0
}

func serveOn(in io.Reader, out io.Writer, ask func(line []byte) answer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		// Whoever writes one line and waits must get its answer before this
		// blocks on input; whoever writes many shall not pay a system call for
		// each. So: flush only when no whole line is at hand.
		if buffered, _ := reader.Peek(reader.Buffered()); bytes.IndexByte(buffered, '\n') < 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		line, err := reader.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(safely(ask, line)); err != nil {
				// A value that can't be printed (too deep) is an answer too; a
				// broken pipe fails once more.
				if err := encoder.Encode(failed(err)); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// safely turns a panic of the library into an answer: the API server recovers
// from them too, so they are outcomes like any error.
func safely(ask func(line []byte) answer, line []byte) (result answer) {
	defer func() {
		if cause := recover(); cause != nil {
			result = failed(fmt.Errorf("panic: %v", cause))
		}
	}()
	return ask(line)
}

// failed never has an empty text, so that the answer always has its one field.
func failed(err error) answer {
	if text := err.Error(); text != "" {
		return answer{Error: text}
	}
	return answer{Error: "unnamed error"}
}
