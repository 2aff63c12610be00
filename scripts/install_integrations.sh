#!/bin/sh
# Make an environment for each row below: sh install_integrations.sh PYTHON UV FOLDER
#
# A row is the name of an environment and what is installed into it beside exthost. An environment
# that cannot be installed whole is removed, and a message says so: its tests are skipped.

python=$1 uv=$2 folder=$3

install() {
    target=$folder/$1
    name=$1
    shift
    [ -e "$target/.installed" ] && return
    rm -rf "$target"
    "$python" -m venv --without-pip "$target" \
        && timeout 180 "$uv" pip install --quiet --python "$target/bin/python" --editable . "$@" \
        && touch "$target/.installed" \
        || { rm -rf "$target"; echo "no $name: its tests are skipped"; }
}

mkdir -p "$folder"
install model-apis openai anthropic google-genai mypy pyright
