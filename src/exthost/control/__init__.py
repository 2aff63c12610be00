"""The running host's local socket: how other processes look at it, steer it and call through it.

One socket per config, this user's alone. In reading order:

protocol           what crosses the socket, as lines of JSON
address, peer      where the socket is, and who is at its other end
served_host        what the verbs use of a host
line_connection    one end of the socket on a loop: lines in, lines out
server             the host's end: one host for a config
server_connection  one client of the host
requests           what each verb does
measurements       durations of calls, processor time and memory, while somebody looks
report             how each extension is, as rows
description        what an extension is and offers, as data
as_data            values of a dialect as data
client             the command line's end, blocking
async_client       the same for asyncio, many requests at a time
attached_host      a host of another process, used as if it were our own; its streams
"""
