// A client of the official Go SDK: `mcp_client '[command]' '[calls]'`, both arguments in JSON.
//
// It starts the server with this command, and prints as JSON the lists of tools, resources and
// prompts, and the result or error of each call.
package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// How long to wait until the server lists all tools that are called: a gateway lists the tools of its
// servers as they become ready.
const listSeconds = 60

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A call is a pair of the name of a tool and its arguments.
type call [2]any

// missesTool returns whether a tool that is called is not in the list.
func missesTool(tools []*mcp.Tool, calls []call) bool {
	names := map[any]bool{}
	for _, tool := range tools {
		names[tool.Name] = true
	}
	for _, wanted := range calls {
		if !names[wanted[0]] {
			return true
		}
	}
	return false
}

func main() {
	var command []string
	var calls []call
	check(json.Unmarshal([]byte(os.Args[1]), &command))
	check(json.Unmarshal([]byte(os.Args[2]), &calls))

	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "matrix", Version: "1"}, nil)
	transport := &mcp.CommandTransport{Command: exec.Command(command[0], command[1:]...)}
	session, err := client.Connect(ctx, transport, nil)
	check(err)

	var tools *mcp.ListToolsResult
	for deadline := time.Now().Add(listSeconds * time.Second); ; time.Sleep(100 * time.Millisecond) {
		tools, err = session.ListTools(ctx, nil)
		check(err)
		if !missesTool(tools.Tools, calls) || time.Now().After(deadline) {
			break
		}
	}
	results := []any{}
	for _, wanted := range calls {
		params := &mcp.CallToolParams{Name: wanted[0].(string), Arguments: wanted[1]}
		if result, err := session.CallTool(ctx, params); err != nil {
			results = append(results, err.Error())
		} else {
			results = append(results, result)
		}
	}
	resources, err := session.ListResources(ctx, nil)
	check(err)
	prompts, err := session.ListPrompts(ctx, nil)
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"tools":     tools.Tools,
		"results":   results,
		"resources": resources.Resources,
		"prompts":   prompts.Prompts,
	}))
	check(session.Close())
}
