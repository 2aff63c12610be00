"""OAuth for a remote MCP server, with the OAuth client of the package `mcp`.

`exthost bridge`, which connects a host to such a server, uses both functions below. `browser_login`
opens a browser, and waits until the server redirects it to a port of this machine; the caller
limits the time. The tokens are kept in a file. `stored_login` uses them, and refreshes them. It
never opens a browser: a bridge runs in the background, where no person would see it.
"""

import asyncio
import contextlib
import sys
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from exthost.errors import Refused
from exthost.faces.bridge.token_file import NewLogin, TokenFile

# A whole response to the browser: the status, its name, and a sentence for the person.
_PAGE = (
    b"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n%s\n"
)

# A browser sends a request line of a few hundred bytes, or two thousand with a long code.
_MAX_REQUEST_LINE = 16384

# A longer scope would not fit into the address of a page.
_MAX_SCOPE = 2000


def stored_login(url: str, tokens: TokenFile) -> OAuthClientProvider:
    """Return the authentication of an earlier login. A request raises Refused if its tokens are
    not accepted and cannot be refreshed, or if it needs a larger scope, which is kept for the next
    login."""

    async def refuse(address: str) -> None:
        scope = parse_qs(urlsplit(address).query).get("scope", [""])[0]
        if 0 < len(scope) <= _MAX_SCOPE:
            tokens.set_scope(scope)
        raise login_needed_error(url)

    # The OAuth client calls `refuse` only if it has a second function, which it then calls.
    async def wait() -> AuthorizationCodeResult:
        raise login_needed_error(url)

    # Port 0, because there is no redirect to receive.
    return _provider(url, tokens, 0, refuse, wait)


def login_needed_error(url: str) -> Refused:
    """Return the error for a server that requires a login."""
    return Refused(
        "X1807",
        f"{urlsplit(url).hostname} requires a login",
        help="log in once: exthost bridge URL --login; or set token = { from = … } in the config",
    )


@contextlib.asynccontextmanager
async def browser_login(url: str, tokens: TokenFile) -> AsyncIterator[OAuthClientProvider]:
    """Yield an authentication that opens a browser, and a listener for the answer."""
    answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle the request to which the server redirects the browser: GET /callback?code=…"""
        try:
            line = await reader.readuntil(b"\r\n")
            target = urlsplit(line.split(b" ")[1].decode("ascii", "replace"))
            query = {name: values[0] for name, values in parse_qs(target.query).items()}
            if target.path != "/callback":
                writer.write(_PAGE % (404, b"Not Found", b"There is nothing here."))
            elif "code" in query:
                writer.write(_PAGE % (200, b"OK", b"You are logged in. Close this page."))
                result = AuthorizationCodeResult(
                    code=query["code"], state=query.get("state"), iss=query.get("iss")
                )
                if not answer.done():
                    answer.set_result(result)
            else:
                writer.write(_PAGE % (200, b"OK", b"The server refused the login."))
                reason = query.get("error_description") or query.get("error") or "no reason given"
                if not answer.done():
                    answer.set_exception(
                        login_failed_error(f"the server refused it: {reason:.200}")
                    )
            await writer.drain()
        # ValueError for an address that cannot be read, such as `//[`
        except (
            IndexError,
            ValueError,
            OSError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            pass  # not a request of a browser
        finally:
            writer.close()

    async def show(address: str) -> None:
        if urlsplit(address).scheme not in ("http", "https"):
            raise login_failed_error("the server names a page that is not on the web")
        page = _with_scope(address, tokens.get_scope())
        print(f"open this page to log in: {page}", file=sys.stderr, flush=True)
        await asyncio.to_thread(webbrowser.open, page)

    async def wait() -> AuthorizationCodeResult:
        return await answer

    listener = await asyncio.start_server(receive, "127.0.0.1", 0, limit=_MAX_REQUEST_LINE)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        yield _provider(url, NewLogin(tokens), port, show, wait)


def _with_scope(address: str, scope: str) -> str:
    """Return the address of an authorization page that asks for this scope, too."""
    parts = urlsplit(address)
    query = parse_qs(parts.query, keep_blank_values=True)
    names = dict.fromkeys([*query.get("scope", [""])[0].split(), *scope.split()])
    if not scope or not names:
        return address
    query["scope"] = [" ".join(names)]
    return urlunsplit(parts._replace(query=urlencode(query, doseq=True)))


def login_failed_error(reason: str) -> Refused:
    """Return the error for a login that did not succeed."""
    return Refused("X1808", f"the login failed: {reason}", help="try it again with --login")


def _provider(
    url: str,
    tokens: TokenStorage,
    port: int,
    redirect_handler: Callable[[str], Awaitable[None]],
    callback_handler: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    """Return the package's authentication. `redirect_handler` gets the address of the page on which
    a person logs in; `callback_handler` returns what the server sends after that."""
    metadata = OAuthClientMetadata(
        client_name="exthost",
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(url, metadata, tokens, redirect_handler, callback_handler)
