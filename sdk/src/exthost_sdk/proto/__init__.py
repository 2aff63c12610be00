"""The messages of `cigen.plugin.v1`: `plugin_pb2`, generated from `plugin.proto`. They need the
package protobuf, and only cigen imports them."""
