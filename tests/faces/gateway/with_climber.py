"""A program like `exthost` that adds the test extension `climber` to every config.

    python -m tests.faces.gateway.with_climber FOLDER ARGUMENTS…

`climber` reports progress and receives cancellations. It speaks a dialect (protocol) from a
package, `tests/toys/stepper.py`, which is written into FOLDER.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from exthost.config import Config
from exthost.config.discovery.configfile import read_config
from exthost.faces.cli import gateway, main
from tests.toys import stepper


def read_config_with_climber(source: Any) -> Config:
    config = read_config(source)
    climber = config.outer_settings("climber").apply_to(stepper.spec("climber"))
    return replace(config, specs=(*config.specs, climber))


if __name__ == "__main__":
    sys.path.insert(0, str(stepper.installed(Path(sys.argv[1]))))
    gateway.read_config = read_config_with_climber  # type: ignore[attr-defined]
    sys.exit(main(sys.argv[2:]))
