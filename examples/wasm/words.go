// An MCP server that is a WebAssembly module, with the standard library alone.
//
//	GOOS=wasip1 GOARCH=wasm go build -o words.wasm words.go
//
// exthost.toml beside this file runs the module. It sees the folder that is granted there, and no
// other file.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string `json:"protocolVersion"`
		Arguments       struct {
			Path string `json:"path"`
		} `json:"arguments"`
	} `json:"params"`
}

type object = map[string]any

var tools = []object{{
	"name":        "count_words",
	"description": "Count the words of a text file.",
	"inputSchema": object{
		"type":       "object",
		"properties": object{"path": object{"type": "string"}},
		"required":   []string{"path"},
	},
	"annotations": object{"readOnlyHint": true},
}}

func countWords(path string) object {
	text, err := os.ReadFile(path)
	if err != nil {
		return object{"isError": true, "content": []object{{"type": "text", "text": err.Error()}}}
	}
	result := object{"words": len(strings.Fields(string(text)))}
	printed, _ := json.Marshal(result)
	return object{
		"structuredContent": result,
		"content":           []object{{"type": "text", "text": string(printed)}},
	}
}

func main() {
	input := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return // the host closed stdin
		}
		var message request
		if json.Unmarshal(line, &message) != nil || message.ID == nil {
			continue // a notification
		}
		reply := object{"jsonrpc": "2.0", "id": message.ID}
		switch message.Method {
		case "initialize":
			reply["result"] = object{
				"protocolVersion": message.Params.ProtocolVersion,
				"capabilities":    object{"tools": object{}},
				"serverInfo":      object{"name": "words", "version": "1.0.0"},
			}
		case "tools/list":
			reply["result"] = object{"tools": tools}
		case "tools/call":
			reply["result"] = countWords(message.Params.Arguments.Path)
		default:
			reply["error"] = object{"code": -32601, "message": "unknown method " + message.Method}
		}
		output.Encode(reply)
	}
}
