"""Runs the processes of extensions on other machines (nodes). The host uses them like local
processes.

A placer starts a node process on a node. The node process connects back to the host, starts the
extension there and relays its pipes: there is a connection for each of stdin, stdout and stderr,
and a control connection for everything else. The node does not interpret what the extension sends.
Framing, sessions, deadlines and statistics stay in the host, which uses a `RemoteChild` like a
local child.

In reading order:

    messages       the messages on the control connection
    placer         the interface that starts node processes on nodes
    local_nodes    a placer that simulates nodes on this machine
    ray_nodes      a placer that uses a Ray cluster, by way of `ray_driver`
    ray_driver     a separate process, the only process that imports Ray
    node_choice    which node gets the next process
    tls            encrypts the connections between nodes and the host
    node_listener  the listening socket of the host, to which node processes connect
    folders        copies the folder of an extension to nodes, which keep it by its digest
    delayed_acks   has the kernel acknowledge fewer small messages
    remote_child   a process on another node, with the methods of a local child
    idle_nodes     node processes that are kept for the next start of their extension
    cluster        chooses nodes and starts remote children for a host
    engines        the clusters of a host: one for Ray, one for nodes simulated on this machine
    preparation    what a node does before it starts an extension: folders, pins, missing files
    poller         waits until a file descriptor can be read or written, on the node
    relay          copies bytes between pipes and sockets, on the node
    node_process   the program that runs on the node: starts the extension, and relays its pipes
"""
