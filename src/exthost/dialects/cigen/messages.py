"""The generated messages of cigen's protocol, under a name that can be remembered."""

from exthost.dialects.cigen.proto.plugin_pb2 import *  # noqa: F403
