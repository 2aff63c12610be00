// The client of the official Go SDK: `go_sdk CALLS TEXT SERVER…`; otherwise as mcp_go.
package main

import (
	"context"
	"os/exec"

	"exthost.bench/peers/turns"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	arguments := turns.Read()
	ctx := context.Background()
	turns.Run(arguments.Calls, func() turns.Client {
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		command := exec.Command(arguments.Server[0], arguments.Server[1:]...)
		session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
		turns.Check(err)
		_, err = session.ListTools(ctx, nil)
		turns.Check(err)
		call := func() {
			params := &mcp.CallToolParams{
				Name:      "echo",
				Arguments: map[string]any{"text": arguments.Text},
			}
			result, err := session.CallTool(ctx, params)
			turns.Check(err)
			if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != arguments.Text {
				panic("not the echo")
			}
		}
		return turns.Client{Call: call, Close: func() { turns.Check(session.Close()) }}
	})
}
