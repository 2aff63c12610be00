"""The config files in which other programs keep their MCP servers, from `config_files.toml`.

`exthost mcp import` looks for servers in these files. For example, the third one is

    ConfigFile("VS Code", "{project}/.vscode/mcp.json", section="servers")

A path begins with `{home}`, the home folder; `{settings}`, the folder in which desktop programs
keep their settings (`~/.config`, on macOS `~/Library/Application Support`); or `{project}`, the
folder of a project.
"""

from dataclasses import dataclass

from exthost.model.package_tables import read_tables

PROJECT = "{project}"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A config file of a program. `section` is the top-level key that has the servers."""

    program: str
    path: str
    section: str = "mcpServers"

    @property
    def is_of_project(self) -> bool:
        """Whether its servers belong to a project and run in the project's folder."""
        return self.path.startswith(PROJECT)


CONFIG_FILES = tuple(
    ConfigFile(**row) for row in read_tables("exthost.dialects.mcp", "config_files.toml")["files"]
)
