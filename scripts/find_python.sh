#!/bin/sh
# Print the path of an interpreter that works, given its name or path (python3.13), or nothing.
#
# A name on PATH may belong to a version manager's shim that refuses to run, so each candidate is
# run before it is printed. After PATH come the versions that pyenv has installed.
name="$1"
version="${name##*python}"

works() {
    printed=$("$1" -c 'import sys, venv; print(sys.executable)' 2>/dev/null) || return 1
    test -n "$printed" && echo "$printed"
}

if works "$name"; then
    exit 0
fi
case "$version" in
    *.*)
        for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
            if test -x "$candidate" && works "$candidate"; then
                exit 0
            fi
        done
        ;;
esac
exit 1
