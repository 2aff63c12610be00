"""The messages of `cigen.plugin.v1`, generated from `plugin.proto`. Only cigen imports them."""
