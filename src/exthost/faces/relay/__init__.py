"""The relay: `exthost gateway` on stdio, between the pipes of an MCP client and a running host.

The host serves MCP (`faces/gateway`); this process only moves lines, so that many clients of one
config share one process for each extension. It starts as often as clients do. Therefore these
modules use the standard library alone, import what is slow only when it is needed, and import none
of the host's code except the rules of where its socket is and how a host is started. In reading
order:

    command        decides whether this client joins a host, starts one, or gets one of its own
    host_link      finds the socket of the host, and joins it
    line_relay     moves the lines, and continues with the next host when one has ended
    client_lines   the lines of the client that the next host needs, and those without an answer

On the socket a line of the client is preceded by its number and a tab: `17<TAB>{…}`; `17!<TAB>…` is
the beginning of a line that is too long. A line of the host has a letter before its tab:

- `r17`: the reply to line 17
- `n17`: line 17 gets no reply, because it is a notification, an answer, or cancelled
- `s`: a request of a server to the client
- `m`: any other message
- `e17`: the host ends, and has read no line after line 17
"""
