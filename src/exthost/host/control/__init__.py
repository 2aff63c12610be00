"""The control socket, by which other processes observe a running host, control it and call tools.

Each config has one such Unix socket, and only the user who runs the host can connect. In reading
order:

    protocol           the messages on the socket: lines of JSON
    socket_path        the path of the socket; address: the folders of socket and locks
    peer_credentials   checks which user is at the other end
    served_host        the interface of the host that the server uses
    line_connection    one end of the socket on an event loop: reads and writes lines
    host_lock          the lock of a config, which ensures that it has one host only
    host_start         starts a host in the background
    server             the server in the host's process
    server_connection  the server's end of one connection
    requests           performs the requests
    call_requests      performs the calls among them
    questions          asks the client of a call whether it may be made; both ends
    measurements       measures durations of calls, processor time and memory on request
    lock_state         how an extension compares with the lock of its config
    status_report      the state of each extension, as one dict per extension
    description        describes an extension and its tools as data
    as_data            converts values of a dialect to JSON data
    client             the blocking client of the command line
    async_client       the asyncio client, with many requests at a time
    attached_host      `exthost.attach`: lets a program use the host of another process
"""
