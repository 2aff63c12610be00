"""The generated messages of cigen's protocol, under a short name."""

from exthost_sdk.proto.plugin_pb2 import *  # noqa: F403
