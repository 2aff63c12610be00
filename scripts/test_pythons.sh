#!/bin/sh
# Run the fast part of the tests on each of these versions of Python that is here, and name those
# that are missing. Fails if the tests fail on one of them, or if none is here.
#
#     scripts/test_pythons.sh MAKE 3.11 3.12 ...
make="$1"
shift
passed="" failed="" missing=""
for version in "$@"; do
    if ! sh scripts/find_python.sh "python$version" >/dev/null; then
        missing="$missing $version"
        continue
    fi
    echo "== Python $version"
    if "$make" --no-print-directory test-fast PYTHON="python$version"; then
        passed="$passed $version"
    else
        failed="$failed $version"
    fi
done
echo "Python passed:${passed:- none}; failed:${failed:- none}; missing here:${missing:- none}"
test -n "$passed" && test -z "$failed"
