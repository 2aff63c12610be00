"""`exthost bridge`: a remote MCP server as a program that speaks the stdio transport.

A host starts `exthost bridge URL` for an extension that is a remote server. To the host, this
program is an MCP server like any other that it starts.

It is built on the client transports and the OAuth client of the package `mcp`. In reading order:

    relay            passes messages between stdin, stdout and the server
    request_headers  the headers that mirror a message, which the protocol requires
    login            OAuth: with a browser, or with the tokens of an earlier login
    token_file       the file with those tokens
"""
