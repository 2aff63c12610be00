"""For authors of extensions: another name of the package `exthost_sdk`.

The distribution `exthost-sdk` installs that package alone, for extensions that are published.
`testing` is another name of `exthost_sdk.testing`.
"""

import exthost_sdk
from exthost_sdk import *  # noqa: F403

__all__ = exthost_sdk.__all__
