// The client of mcp-go: `mcp_go CALLS TEXT SERVER…` makes CALLS calls, a hundred in flight, or starts
// another client, for each line on stdin.
package main

import (
	"context"

	"exthost.bench/peers/turns"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	arguments := turns.Read()
	ctx := context.Background()
	turns.Run(arguments.Calls, func() turns.Client {
		peer, err := client.NewStdioMCPClient(arguments.Server[0], nil, arguments.Server[1:]...)
		turns.Check(err)
		begin := mcp.InitializeRequest{}
		begin.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
		begin.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
		_, err = peer.Initialize(ctx, begin)
		turns.Check(err)
		_, err = peer.ListTools(ctx, mcp.ListToolsRequest{})
		turns.Check(err)
		call := func() {
			request := mcp.CallToolRequest{}
			request.Params.Name = "echo"
			request.Params.Arguments = map[string]any{"text": arguments.Text}
			result, err := peer.CallTool(ctx, request)
			turns.Check(err)
			if text, ok := mcp.AsTextContent(result.Content[0]); !ok || text.Text != arguments.Text {
				panic("not the echo")
			}
		}
		return turns.Client{Call: call, Close: func() { turns.Check(peer.Close()) }}
	})
}
