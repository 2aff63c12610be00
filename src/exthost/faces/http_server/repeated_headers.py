"""Refuses requests in which a header that decides about access occurs more than once.

Of two `Authorization` headers, some programs use the first and others the last. A proxy that checks
one of them would let a request pass that is then judged by the other one.
"""

from exthost.faces.http_server.probes import App, Receive, Scope, Send, send_response

__all__ = ["refuse_repeated_headers"]

BAD_REQUEST = 400

# Headers that the access rules read (`access.Access`).
_SINGLE_HEADERS = (b"authorization", b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode")


def refuse_repeated_headers(app: App) -> App:
    """Return an ASGI application that answers such requests with 400, and passes all others to
    `app`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            names = [name.lower() for name, _ in scope["headers"]]
            for header in _SINGLE_HEADERS:
                if names.count(header) > 1:
                    reason = b"the header " + header + b" occurs more than once"
                    await send_response(send, BAD_REQUEST, "text/plain", reason)
                    return
        await app(scope, receive, send)

    return answer
