"""File names and documents as a language server wants them. Pure."""

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

# The language of a document by its suffix; a server that does not know it does little harm.
_LANGUAGES = {
    ".c": "c", ".cpp": "cpp", ".go": "go", ".java": "java", ".js": "javascript", ".json": "json",
    ".md": "markdown", ".py": "python", ".rs": "rust", ".sh": "shellscript", ".ts": "typescript",
}  # fmt: skip


def uri_of(path: str, folder: str) -> str:
    """Return the URI of a file; a relative path starts at `folder`."""
    if "://" in path:
        return path
    return "file://" + quote(str(PurePath(folder) / path))


def item(uri: str, text: str, version: int = 1) -> dict[str, Any]:
    """Return the document item that opens a document."""
    language = _LANGUAGES.get(PurePath(uri).suffix, "plaintext")
    return {"uri": uri, "languageId": language, "version": version, "text": text}


def markup_text(contents: Any) -> str:
    """Return the text of what a server shows: plain text, markup, or a list of either."""
    if isinstance(contents, str):
        return contents
    if isinstance(contents, dict):
        return str(contents.get("value", ""))
    if isinstance(contents, list):
        return "\n\n".join(text for one in contents if (text := markup_text(one)))
    return ""
