"""The AppArmor profile that lets bubblewrap make user namespaces, as text.

Ubuntu 23.10 and later forbid unprivileged user namespaces to programs without a profile
(`kernel.apparmor_restrict_unprivileged_userns`). The profile allows them only to bubblewrap and to
our init, the first program in a namespace (`sandbox/init.c`). It changes nothing else: both run
unconfined, as without AppArmor.

No machine with that restriction was available, so the profile is tested only as text.
"""

from pathlib import Path

PROFILE_NAME = "exthost"

_SWITCH = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_PROFILES = "etc/apparmor.d"

_PROFILE = """\
# Lets exthost make sandboxes where unprivileged user namespaces are restricted. Written by
# `exthost doctor --fix`. Remove it with: apparmor_parser -R {file} && rm {file}
abi <abi/4.0>,
include <tunables/global>

profile exthost-bwrap {bwrap} flags=(unconfined) {{
  userns,
  include if exists <local/exthost-bwrap>
}}

# The first process of a namespace is executed from a file in memory.
profile exthost-init "/memfd:exthost-init*" flags=(unconfined) {{
  userns,
  include if exists <local/exthost-init>
}}
"""

# Characters with a meaning in the path of a profile.
_SPECIAL = frozenset('*?[]{}^@"\\, \t\n#')


def is_restricted(root: str = "/") -> bool:
    """Return whether the kernel restricts unprivileged user namespaces by AppArmor."""
    try:
        return Path(root, _SWITCH).read_text().strip() not in ("", "0")
    except OSError:
        return False


def profile_file(root: str = "/") -> Path:
    """Return the path of the profile."""
    return Path(root, _PROFILES, PROFILE_NAME)


def profile_text(bwrap: str) -> str:
    """Return the profile for the bubblewrap at this path. Raises ValueError if the path cannot be
    written in a profile."""
    if not bwrap.startswith("/") or _SPECIAL & set(bwrap) or not bwrap.isprintable():
        raise ValueError(f"{bwrap!r} cannot be written in an AppArmor profile")
    return _PROFILE.format(bwrap=bwrap, file=profile_file())


def find_other_profile(bwrap: str, root: str = "/") -> str:
    """Return the file of another profile that names this bubblewrap; "" if there is none. Two
    profiles for one program do not load."""
    for path in sorted(Path(root, _PROFILES).glob("*")):
        if path == profile_file(root) or not path.is_file():
            continue
        try:
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        if any(line.startswith("profile") and bwrap in line for line in lines):
            return str(path)
    return ""
