#!/bin/sh
# Make an environment for each row below: sh install_integrations.sh PYTHON BIN FOLDER
#
# A row is the name of an environment and what is installed into it beside exthost. An environment
# that cannot be installed whole is removed, and a message says so: its tests are skipped. BIN has uv
# and a Python with pip, which installs where uv cannot.

python=$1 bin=$2 folder=$3

install() {
    target=$folder/$1
    name=$1
    shift
    [ -e "$target/.installed" ] && return
    rm -rf "$target"
    "$python" -m venv --without-pip "$target" \
        && { timeout 180 "$bin/uv" pip install --quiet --python "$target/bin/python" --editable ./sdk --editable . "$@" \
            || timeout 180 "$bin/python" -m pip --python "$target/bin/python" install --quiet \
                --retries 1 --editable ./sdk --editable . "$@"; } \
        && touch "$target/.installed" \
        || { rm -rf "$target"; echo "no $name: its tests are skipped"; }
}

mkdir -p "$folder"
install model-apis openai anthropic google-genai mypy pyright
install pydantic_ai-newest "pydantic-ai-slim[openai]"
install langchain-newest langchain langchain-openai
install openai_agents-newest openai-agents
install smolagents-newest "smolagents[openai]"
install fastmcp-newest fastmcp
# The oldest that pyproject.toml claims, with what was current beside them: they do not run with
# every later release of their own dependencies.
install pydantic_ai-oldest "pydantic-ai-slim[openai]==1.50.0"
install langchain-oldest langchain-core==1.0.0 langchain==1.0.0 langchain-openai==1.0.0 \
    langgraph==1.0.1 langgraph-checkpoint==3.0.0 langgraph-prebuilt==1.0.1
install openai_agents-oldest openai-agents==0.5.0 openai==2.7.1
install smolagents-oldest "smolagents[openai]==1.20.0"
install fastmcp-oldest fastmcp==3.0.0
