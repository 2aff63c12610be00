"""Print the JSON Schema of exthost.toml, with the sections of every dialect that is installed.

Editors complete and check a config with it. For those that use Taplo, write it to a file and name
that file in the first line of the config:

  exthost schema > exthost.schema.json
  #:schema ./exthost.schema.json
"""

import argparse

from exthost.config.json_schema import json_schema
from exthost.faces.cli.common import Args, show_json


def add_options(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: Args) -> int:
    show_json(json_schema(), pretty=not args.json)
    return 0
