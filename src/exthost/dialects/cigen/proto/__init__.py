"""The messages of `cigen.plugin.v1`, generated from `plugin.proto`. Imported only by cigen."""
