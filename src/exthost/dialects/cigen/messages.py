"""The generated messages of cigen's protocol, under a short name."""

from exthost.dialects.cigen.proto.plugin_pb2 import *  # noqa: F403
