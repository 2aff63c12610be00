// The same morphir extension in Go: one JSON object a line, in and out. Standard library only.
//
// By hand:  echo '{"id":1,"method":"shout","params":{"text":"hi"}}' | go run text.go
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

type request struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type reply struct {
	ID     uint64 `json:"id"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

type tool struct {
	about string
	run   func(json.RawMessage) (any, error)
}

func withText(use func(string) any) func(json.RawMessage) (any, error) {
	return func(params json.RawMessage) (any, error) {
		var arguments struct{ Text string }
		if err := json.Unmarshal(params, &arguments); err != nil {
			return nil, err
		}
		return use(arguments.Text), nil
	}
}

var tools = map[string]tool{
	"echo":  {"Give back what it gets", func(params json.RawMessage) (any, error) { return params, nil }},
	"shout": {"Upper case", withText(func(text string) any { return map[string]string{"text": strings.ToUpper(text)} })},
	"count": {"Count words", withText(func(text string) any { return map[string]int{"words": len(strings.Fields(text))} })},
}

func answer(method string, params json.RawMessage) (any, error) {
	switch method {
	case "initialize":
		return map[string]string{"status": "ready"}, nil
	case "capabilities":
		offered := []map[string]string{}
		for _, name := range []string{"echo", "shout", "count"} {
			offered = append(offered, map[string]string{"name": name, "description": tools[name].about})
		}
		return offered, nil
	}
	if known, ok := tools[method]; ok {
		return known.run(params)
	}
	return nil, fmt.Errorf("unknown method: %s", method)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20) // the default ends at lines of 64 KiB
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, "not a request:", err)
			continue
		}
		result, err := answer(asked.Method, asked.Params)
		if err != nil {
			out.Encode(reply{ID: asked.ID, Error: err.Error()})
		} else {
			out.Encode(reply{ID: asked.ID, Result: result})
		}
	}
}
