"""Decides whether a browser may load the web page of a host, and passes the token to it.

The URL that `exthost run --web` prints contains the token. The first response redirects to a URL
with the token in the fragment, which browsers never send to a server. The page keeps the token for
its tab, and sends it as a header of each request to the API. Therefore no other site, and no other
server on this machine, can make a browser send the token.

The response also sets a cookie, so that the page can be loaded again. Browsers send a cookie to
every port of a machine, so another server on this machine may read it. Therefore the cookie gives
access only to the page itself, which contains no data. The API needs the token.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from exthost.faces.http_server.access import Access
from exthost.faces.http_server.token import Tokens

# A form contains only the token, which is one short line.
MAX_FORM_BYTES = 4096


class Login:
    """Decides who may load the page.

    access  checks the token in the headers of a request
    tokens  the valid tokens
    port    the port of the page, which is part of the name of the cookie: other hosts on this
            machine have cookies of their own
    """

    def __init__(self, access: Access, tokens: Tokens, port: int) -> None:
        self._access = access
        self._tokens = tokens
        self._cookie_name = f"exthost_{port}"

    def may_load(self, request: Request) -> bool:
        """Return whether the request has a valid cookie, or the token as a header."""
        cookies = SimpleCookie()
        try:
            cookies.load(request.headers.get("cookie", ""))
        except CookieError:
            return False
        morsel = cookies.get(self._cookie_name)
        cookie = (morsel.value if morsel is not None else "").encode("utf-8", "replace")
        # Compared as bytes: `compare_digest` refuses texts with characters outside of ASCII.
        valid_cookies = [_cookie_value(token).encode() for token in self._tokens.texts]
        is_valid = any(hmac.compare_digest(cookie, value) for value in valid_cookies)
        return is_valid or self._access.has_token(request.headers)

    async def log_in_by_form(self, request: Request) -> Response | None:
        """Return the redirect for a form with a valid token; None for any other form."""
        body = b""
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_FORM_BYTES:
                    return None
        except ClientDisconnect:
            return None
        fields = parse_qs(body.decode("utf-8", "replace"))
        return self.log_in_by_token(fields.get("token", [""])[0])

    def log_in_by_token(self, token: str) -> Response | None:
        """Return the redirect, with the cookie, for a valid token; None for any other text."""
        token = token.strip()
        if not token or not self._access.is_token(token):
            return None
        response = RedirectResponse(f"/#token={quote(token, safe='')}", status_code=303)
        value = _cookie_value(token)
        response.set_cookie(self._cookie_name, value, httponly=True, samesite="lax", path="/")
        return response


def _cookie_value(token: str) -> str:
    """Return the cookie for a token, from which the token cannot be computed."""
    return hmac.new(token.encode(), b"exthost page", hashlib.sha256).hexdigest()
