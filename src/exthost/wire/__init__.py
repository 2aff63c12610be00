"""Framings, which turn bytes into frames and back, and the JSON encoder and decoder. Pure: does no
I/O, uses no clock, knows no dialect.

A frame is the bytes of one message. A dialect is the protocol of an extension, which uses one of
the framings.

In reading order:

    framing    the interface of a framing: bytes in, frames and errors out
    lines      a frame is one line
    headers    a frame is a block of headers with Content-Length, and a body
    prefixed   a frame is a 32-bit length and a body
    proxy_requests  what a client sends to a proxy: HTTP CONNECT, plain HTTP, SOCKS5
    jsontext   decodes and encodes JSON text
    typed_values  converts decoded values to dataclasses, with checks
"""
