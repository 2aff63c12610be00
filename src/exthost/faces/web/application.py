"""The ASGI application of the web page of a running host: routes, access checks and security
headers. `exthost run --web` serves it.

Everything except the login form needs the token. To load the page, a browser needs a cookie, which
it gets for the token. Requests to the API need the token itself. The content security policy in
each response lets the page load files from this server only, and run no other code.
"""

import mimetypes
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exthost.faces.http_server.access import UNAUTHORIZED, Access
from exthost.faces.http_server.asgi import decode_headers, send_response
from exthost.faces.web.endpoints import Endpoint, Endpoints
from exthost.faces.web.login import Login

STATIC = Path(__file__).parent / "static"

# The content security policy.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "media-src data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        # Text of an extension cannot become code, even through a bug in the page.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
    "cache-control": "no-store",
}

# Files that the login form needs. They are served without a token.
_PUBLIC_FILES = frozenset({"style.css", "icon.svg"})


def build_application(endpoints: Endpoints, access: Access, login: Login) -> ASGIApp:
    """Return the ASGI application of the page, with the static files in memory."""
    files = {
        file.relative_to(STATIC).as_posix(): file.read_bytes()
        for file in STATIC.rglob("*")
        if file.is_file()
    }

    async def show_page(request: Request) -> Response:
        token = request.query_params.get("token", "")
        redirect = login.log_in_by_token(token)
        if redirect is not None:
            return redirect
        if token:
            return _respond_wrong_token(files)
        if login.may_load(request):
            return _respond_file(files, "index.html")
        return _respond_file(files, "login.html", UNAUTHORIZED)

    async def log_in(request: Request) -> Response:
        redirect = await login.log_in_by_form(request)
        return redirect or _respond_wrong_token(files)

    async def show_file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            return PlainTextResponse("not found", 404)
        if name not in _PUBLIC_FILES and not login.may_load(request):
            return PlainTextResponse("the page needs its token", UNAUTHORIZED)
        return _respond_file(files, name)

    def require_token(endpoint: Endpoint) -> Any:
        """Return a handler that runs the endpoint if the request has the token."""

        async def answer(request: Request) -> Response:
            if not access.has_token(request.headers):
                text = "send the token as Authorization: Bearer TOKEN"
                return PlainTextResponse(text, UNAUTHORIZED, {"www-authenticate": "Bearer"})
            return await endpoints.answer(endpoint, request)

        return answer

    routes = [
        Route("/", show_page, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/static/{name:path}", show_file, methods=["GET"]),
        *(
            Route(path, require_token(endpoint), methods=[method])
            for path, (method, endpoint) in endpoints.paths.items()
        ),
    ]
    return _add_checks(Starlette(routes=routes), access)


def _add_checks(app: ASGIApp, access: Access) -> ASGIApp:
    """Return an application that checks the Host and Origin of each request, and adds the security
    headers to each response of `app`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        objection = access.find_objection(decode_headers(scope))
        if objection is not None:
            status, reason = objection
            await send_response(send, status, "text/plain", reason.encode())
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive, send_with_headers)

    return answer


def _respond_wrong_token(files: dict[str, bytes]) -> Response:
    """Return the login form, which says that the token was wrong."""
    page = files["login.html"].replace(b'id="wrong" hidden', b'id="wrong"')
    return Response(page, UNAUTHORIZED, media_type="text/html")


def _respond_file(files: dict[str, bytes], name: str, status: int = 200) -> Response:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if name.endswith(".js"):  # systems differ in the type that they guess
        media_type = "text/javascript"
    return Response(files[name], status, media_type=media_type)
