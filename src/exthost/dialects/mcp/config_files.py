"""The config files in which other programs keep their MCP servers.

A path begins with `{home}`, the home folder; `{settings}`, the folder in which desktop programs
keep their settings (`~/.config`, on macOS `~/Library/Application Support`); or `{project}`, the
folder of a project.
"""

from dataclasses import dataclass

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


# Of two servers with the same name, the one of the earlier file keeps it. Files of a project come
# first.
CONFIG_FILES = (
    ConfigFile("Claude Code", "{project}/.mcp.json"),
    ConfigFile("Cursor", "{project}/.cursor/mcp.json"),
    ConfigFile("VS Code", "{project}/.vscode/mcp.json", "servers"),
    ConfigFile("Zed", "{project}/.zed/settings.json", "context_servers"),
    ConfigFile("opencode", "{project}/opencode.json", "mcp"),
    ConfigFile("opencode", "{project}/opencode.jsonc", "mcp"),
    ConfigFile("Codex", "{project}/.codex/config.toml", "mcp_servers"),
    ConfigFile("Gemini CLI", "{project}/.gemini/settings.json"),
    ConfigFile("Roo Code", "{project}/.roo/mcp.json"),
    ConfigFile("Kiro", "{project}/.kiro/settings/mcp.json"),
    ConfigFile("Claude Code", "{home}/.claude.json"),
    ConfigFile("Claude Desktop", "{settings}/Claude/claude_desktop_config.json"),
    ConfigFile("Cursor", "{home}/.cursor/mcp.json"),
    ConfigFile("VS Code", "{settings}/Code/User/mcp.json", "servers"),
    ConfigFile("VS Code", "{settings}/Code/User/settings.json", "mcp"),
    ConfigFile("VS Code Insiders", "{settings}/Code - Insiders/User/mcp.json", "servers"),
    ConfigFile("VSCodium", "{settings}/VSCodium/User/mcp.json", "servers"),
    ConfigFile(
        "Cline",
        "{settings}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    ),
    ConfigFile("Windsurf", "{home}/.codeium/windsurf/mcp_config.json"),
    ConfigFile("Zed", "{home}/.config/zed/settings.json", "context_servers"),
    ConfigFile("opencode", "{home}/.config/opencode/opencode.json", "mcp"),
    ConfigFile("opencode", "{home}/.config/opencode/opencode.jsonc", "mcp"),
    ConfigFile("Codex", "{home}/.codex/config.toml", "mcp_servers"),
    ConfigFile("Gemini CLI", "{home}/.gemini/settings.json"),
    ConfigFile("Copilot CLI", "{home}/.copilot/mcp-config.json"),
    ConfigFile("Amazon Q", "{home}/.aws/amazonq/mcp.json"),
    ConfigFile("Kiro", "{home}/.kiro/settings/mcp.json"),
    ConfigFile("LM Studio", "{home}/.lmstudio/mcp.json"),
)
