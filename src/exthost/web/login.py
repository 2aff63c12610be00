"""How a browser brings the token.

The address that `exthost run --web` prints has it. The first answer moves it out of the address
into the fragment, which is never sent, and the page keeps it for its tab alone; every request to
the API carries it as a header. So no other site, and no other server on this machine, can make a
browser use it. A cookie only opens the page itself, which holds nothing: browsers send cookies to
every port of a machine, so ours must be worth nothing elsewhere.
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
    """Who may load the page."""

    def __init__(self, access: Access, tokens: Tokens, port: int) -> None:
        self._access = access
        self._tokens = tokens
        self._cookie = f"exthost_{port}"

    def may_load(self, request: Request) -> bool:
        """Return whether the browser has shown the token before, or shows it now as a header."""
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
        """Return the answer to a form with the right token, None to any other."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM_BYTES:
                return None
        fields = parse_qs(body.decode("utf-8", "replace"))
        return self.by_token(fields.get("token", [""])[0])

    def by_token(self, token: str) -> Response | None:
        """Return the answer to an address with the right token, None to any other."""
        token = token.strip()
        if not token or not self._access.is_token(token):
            return None
        response = RedirectResponse(f"/#token={quote(token, safe='')}", status_code=303)
        value = _cookie_value(token)
        response.set_cookie(self._cookie, value, httponly=True, samesite="lax", path="/")
        return response


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"exthost page", hashlib.sha256).hexdigest()
