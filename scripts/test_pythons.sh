#!/bin/sh
# Run the fast part of the tests on each of these versions of Python that is here, and name those
# that are missing. Fails if the tests fail on one of them, or if none is here.
#
# The first of them is that of make itself, which is tried in Python's development mode.
#
#     scripts/test_pythons.sh MAKE 3.11 3.11 3.12 ...
make="$1"
own="$2"
shift 2
passed="" failed="" missing=""
for version in "$@"; do
    if ! sh scripts/find_python.sh "python$version" >/dev/null; then
        missing="$missing $version"
        continue
    fi
    echo "== Python $version"
    if test "$version" = "$own"; then
        set -- test-fast-dev
    else
        set -- test-fast PYTHON="python$version"
    fi
    if "$make" --no-print-directory "$@"; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done
echo "Python passed:${passed:- none}; failed:${failed:- none}; missing here:${missing:- none}"
test -n "$passed" && test -z "$failed"
