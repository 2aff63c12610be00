"""The local socket of a running host: how other processes observe it, control it and call it.

There is one socket per config, and only this user can connect. In reading order:

    protocol           the messages on the socket: lines of JSON
    address            where the socket is
    peer_credentials   which user is at the other end
    served_host        the interface of the host behind the socket
    line_connection    one end of the socket on an event loop: lines in, lines out
    server             the host's end: one host for a config
    server_connection  one client of the host
    requests           what each verb does
    measurements       durations of calls, processor time and memory, while a client reads them
    status_report      the state of each extension, as rows
    description        what an extension is and offers, as data
    as_data            values of a dialect as data
    client             the command line's end, blocking
    async_client       the same for asyncio, many requests at a time
    attached_host      a host of another process, used like one of this process
    attached_stream    its streams
"""
