"""Processes on other machines, behind the face of local ones.

A node process, started on another node by a placer, connects back to the host: one connection for
each of stdin, stdout and stderr, and the life connection. Only bytes travel. Framing, sessions,
deadlines and accounting stay in the host, which treats a `RemoteChild` like a local child.

In reading order:

    messages       the messages on the life connection (pure)
    placer         the interface that starts node processes on nodes
    local_nodes    a placer that simulates nodes on this machine
    ray_nodes      a placer that uses a Ray cluster, by way of `ray_driver`
    ray_driver     a process of its own, the only one that imports Ray
    node_choice    which node gets the next process (pure)
    tls            encrypts the connections between nodes and the host
    gate           the port of the host to which node processes connect
    folders        sends the folder of an extension to nodes, by the digest of its content
    remote_child   a process on another node, with the methods of a local child
    cluster        chooses nodes and starts remote children for a host
    engines        the clusters of a host, by the names in `pool.engine`
    preparation    what a node does before it starts an extension: folders, pins, missing files
    relay          moves bytes between pipes and sockets, on the node
    node_process   the program that runs on the node: starts the extension, and relays
"""
