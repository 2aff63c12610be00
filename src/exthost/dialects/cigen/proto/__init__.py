"""`mapping` converts the messages of `cigen.plugin.v1` to JSON and back. The messages are in the
SDK: `exthost_sdk.proto`."""
