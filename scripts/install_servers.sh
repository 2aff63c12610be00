#!/bin/sh
# Make an environment for each server below: sh install_servers.sh PYTHON BIN FOLDER
#
# The name of an environment is that of the server's package. What follows is installed into it. An
# environment that cannot be installed completely is removed, and a message says so: its test is
# skipped. BIN has uv and a Python with pip, which installs where uv cannot.

python=$1 bin=$2 folder=$3

install() {
    name=${1%%=*}
    target=$folder/$name
    [ -e "$target/.installed" ] && return
    rm -rf "$target"
    "$python" -m venv --without-pip "$target" \
        && { timeout 180 "$bin/uv" pip install --quiet --compile-bytecode --python "$target/bin/python" "$@" \
            || timeout 180 "$bin/python" -m pip --python "$target/bin/python" install --quiet \
                --retries 1 "$@"; } \
        && touch "$target/.installed" \
        || { rm -rf "$target"; echo "no $name: its test is skipped"; }
}

mkdir -p "$folder"
install mcp-server-time==2026.10.19
install mcp-server-git==2026.10.19
install mcp-server-fetch==2026.10.24
install mcp-server-sqlite==2025.4.25 "mcp<2"
install mcp-server-calculator==0.2.1
install arxiv-mcp-server==0.8.2
install mcp-text-editor==1.0.2 "mcp<2"
install excel-mcp-server==2.2.2
install office-word-mcp-server==1.1.11
install mcp-simple-timeserver==3.3.2
