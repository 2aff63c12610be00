"""cigen: protobuf messages behind a length; replies are matched by order.

dialect   handshake and methods; `ext.typed`
codec     the six exchanges, which a frame belongs to by its position
manifest  plugins on disk: executables with a telling name
messages  the generated messages
proto     the .proto, its generated code, and the mapping to and from JSON
"""

from exthost.dialects.cigen.dialect import DIALECT

__all__ = ["DIALECT"]
