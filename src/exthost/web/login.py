"""How a browser gets the token and sends it.

The address that `exthost run --web` prints contains the token. The first response moves it into the
fragment of the address, which browsers never send. The page keeps it for its tab, and sends it as a
header of each request to the API. So no other site, and no other server on this machine, can make a
browser use the token. A cookie gives access to the page itself only, which contains no data: since
browsers send a cookie to every port of a machine, another server may read it.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from exthost.http_server.access import Access
from exthost.http_server.token import Tokens

# A token is one short line.
MAX_FORM_BYTES = 4096


class Login:
    """Decides who may load the page."""

    def __init__(self, access: Access, tokens: Tokens, port: int) -> None:
        self._access = access
        self._tokens = tokens
        self._cookie = f"exthost_{port}"

    def may_load(self, request: Request) -> bool:
        """Return whether the browser has our cookie, or sends the token as a header."""
        cookies = SimpleCookie()
        try:
            cookies.load(request.headers.get("cookie", ""))
        except CookieError:
            return False
        morsel = cookies.get(self._cookie)
        shown = morsel.value if morsel is not None else ""
        given = shown.encode("utf-8", "replace")
        valid = [_cookie_value(token).encode() for token in self._tokens.texts]
        is_known = any(hmac.compare_digest(given, value) for value in valid)
        return is_known or self._access.has_token(request.headers)

    async def by_form(self, request: Request) -> Response | None:
        """Return the response to a form with the right token; None for any other."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                return None
        fields = parse_qs(body.decode("utf-8", "replace"))
        return self.by_token(fields.get("token", [""])[0])

    def by_token(self, token: str) -> Response | None:
        """Return the response to an address with the right token; None for any other."""
        token = token.strip()
        if not token or not self._access.is_token(token):
            return None
        response = RedirectResponse(f"/#token={quote(token, safe='')}", status_code=303)
        value = _cookie_value(token)
        response.set_cookie(self._cookie, value, httponly=True, samesite="lax", path="/")
        return response


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"exthost page", hashlib.sha256).hexdigest()
