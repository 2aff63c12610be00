"""The relay: `exthost gateway` on stdio, between the pipes of an MCP client and a running host.

An MCP client, such as an editor, starts this process as its MCP server. The host serves MCP
(`faces/gateway`); this process only moves lines, so that many clients of one config share one
process for each extension. A relay starts with each client, so it must start fast. Therefore these
modules use the standard library alone, import slow modules only when they need them, and import
nothing of the host's code except where its socket is and how a host is started. In reading order:

    command        decides whether this client uses the running host, a host that it starts for all
                   clients of the config, or a host of its own in this process
    host_link      finds the socket of the host, and joins it
    line_relay     moves the lines, and continues with the next host when one has ended
    client_lines   the lines of the client that the next host needs (the handshake and the
                   subscriptions), and those without an answer

On the socket a line of the client is preceded by its number and a tab: `17<TAB>{…}`; `17!<TAB>…` is
the beginning of a line that is too long. A line of the host has a letter before its tab:

- `r17`: the reply to line 17
- `n17`: line 17 gets no reply, because it is a notification, an answer, or cancelled
- `s`: a request of an MCP server behind the host to the client
- `m`: any other message of the host
- `e17`: the host ends, and has read no line after line 17
"""
