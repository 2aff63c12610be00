"""The command line, with one extension more in its config: the toy that tells progress and hears
cancels. Its dialect is a third party's, which a config cannot name."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.faces.cli import gateway, main
from tests.toys import stepper


def with_climber(source: Any) -> Config:
    config = read_config(source)
    climber = config.outer_settings("climber").apply_to(stepper.spec("climber"))
    return replace(config, specs=(*config.specs, climber))


if __name__ == "__main__":
    sys.path.insert(0, str(stepper.installed(Path(sys.argv[1]))))
    gateway.read_config = with_climber  # type: ignore[attr-defined]
    sys.exit(main(sys.argv[2:]))
