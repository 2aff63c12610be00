"""Runs the processes of extensions on other machines (nodes). The host uses them like local
processes.

On each node an agent runs the processes of one host. There is one connection between the two, which
carries the pipes of all these processes as streams with flow control, and one heartbeat. A placer
holds the resources of each process in the cluster and starts the agents. The agent does not
interpret what an extension sends: framing, sessions, deadlines and statistics stay in the host,
which uses a `RemoteChild` like a local child.

In reading order:

    placer            the interface of a cluster: it holds resources and starts agents
    local_nodes       a placer that simulates nodes on this machine
    ray_nodes         a placer that uses a Ray cluster, by way of `ray_driver`
    ray_driver        a separate process, the only process that imports Ray
    node_choice       which node would be best for the next process
    placement_errors  the errors of starts that the cluster is at fault for
    multiplexer       many streams and messages on one connection (pure)
    link              a socket with a multiplexer on it
    messages          the messages between host and agent
    certificates      makes the certificates of a cluster
    tls               encrypts the connections between agents and the host
    node_listener     the listening socket of the host, to which agents connect
    streams           the host's ends of the pipes of a process
    remote_child      a process on another node, with the methods of a local child
    agent_connection  the host's end of the connection to one agent
    agents            starts agents, and keeps their connections
    folders           copies the folder of an extension to nodes, which keep it by its digest
    cluster           chooses nodes and starts remote children for a host
    engines           the clusters of a host: one for Ray, one for nodes simulated on this machine
    preparation       what an agent does before it starts a process: folders, pins, missing files
    poller            waits until a file descriptor can be read or written, in the agent
    agent_process     a process on the node, and the relays between its pipes and its streams
    agent             the program that runs on the node
"""
