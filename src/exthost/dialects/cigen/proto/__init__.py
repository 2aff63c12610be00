"""The messages of `cigen.plugin.v1`, generated from `plugin.proto`. Only cigen imports them.

plugin_pb2  the messages (generated)
mapping     converts them to JSON and back
"""
