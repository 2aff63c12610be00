"""The first bytes that a client sends to a proxy: a request of HTTP, or of SOCKS 5.

An extension in a sandbox reaches the network through a proxy of exthost, which parses these bytes
to learn the target. The extension may be hostile: if the proxy and the server read a request in two
ways, the extension could reach a target that the proxy has not checked.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.wire.proxy_requests import (
    MAX_HEAD_BYTES,
    BadRequest,
    HttpRequest,
    SocksRequest,
    parse_http,
    parse_socks,
    parse_socks_greeting,
    parse_status,
    socks_reply,
)

CONNECT = b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n"
GET = (
    b"GET http://api.example.com:8080/a?b=c HTTP/1.1\r\nHost: other.example\r\nAccept: */*\r\n"
    b"Proxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\r\n"
)


def parse_whole(data: bytes) -> HttpRequest:
    request = parse_http(data)
    assert request is not None
    return request


def test_connect_names_a_host_and_a_port() -> None:
    request = parse_whole(CONNECT + b"early")
    assert (request.authority, request.is_tunnel) == ("api.example.com:443", True)
    assert request.rest == b"early"
    assert parse_whole(b"CONNECT [::1]:443 HTTP/1.0\r\n\r\n").authority == "[::1]:443"


def test_a_plain_request_is_rewritten_for_its_server() -> None:
    request = parse_whole(GET)
    assert (request.authority, request.is_tunnel) == ("api.example.com:8080", False)
    assert request.origin_head() == (
        b"GET /a?b=c HTTP/1.1\r\nHost: api.example.com:8080\r\naccept: */*\r\n"
        b"Connection: close\r\n\r\n"
    )
    chained = request.proxy_head("Basic abc")
    assert chained.startswith(b"GET http://api.example.com:8080/a?b=c HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic abc\r\n" in chained


def test_a_client_of_http_1_0_gets_no_reply_of_a_later_version() -> None:
    """It could not read a reply in chunks, which a server sends to clients of HTTP/1.1 only."""
    request = parse_whole(GET.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert request.origin_head().startswith(b"GET /a?b=c HTTP/1.0\r\n")
    assert b" HTTP/1.0\r\n" in request.proxy_head("")


def test_the_host_header_is_that_of_the_url() -> None:
    assert b"other.example" not in parse_whole(GET).origin_head()


def test_the_length_of_a_body_stays_with_the_request() -> None:
    headers = b"Content-Length: 3\r\nConnection: content-length"
    request = parse_whole(b"POST http://a.example HTTP/1.1\r\n" + headers + b"\r\n\r\nabc")
    assert (request.body_bytes, request.rest, request.path) == (3, b"abc", b"/")
    assert b"content-length: 3" in request.origin_head()
    chunked = parse_whole(b"POST http://a.example HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert chunked.body_bytes is None


@pytest.mark.parametrize("data", [CONNECT, GET])
def test_a_request_in_any_parts_is_the_same_request(data: bytes) -> None:
    for end in range(len(data)):
        assert parse_http(data[:end]) is None
    assert parse_http(data) is not None


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET https://a.example/ HTTP/1.1\r\n\r\n",
        b"GET ftp://a.example/ HTTP/1.1\r\n\r\n",
        b"GET http:///path HTTP/1.1\r\n\r\n",
        b"GET http://user@a.example/ HTTP/1.1\r\n\r\n",
        b"GET http://a.example\\@b.example/ HTTP/1.1\r\n\r\n",
        b"GET http://a.example/ HTTP/2\r\n\r\n",
        b"GET http://a.example/ b HTTP/1.1\r\n\r\n",
        b"GET http://a.example/#b HTTP/1.1\r\n\r\n",
        b"CONNECT a.example HTTP/1.1\r\n\r\n",
        b"CONNECT a.example:443@b.example:443 HTTP/1.1\r\n\r\n",
        b"CONNECT http://a.example:443 HTTP/1.1\r\n\r\n",
        b"CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        b"CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nA: b\0\r\n\r\n",
        b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST http://a.example/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        b"POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"TRACE http://a.example/ HTTP/1.1\r\nMax-Forwards: 0\r\n\r\n",
        b"\x16\x03\x01 client hello\r\n",
        b"\x04\x01\x01\xbb\r\n",
    ],
)
def test_a_request_that_could_be_read_in_two_ways_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_http(head)


def test_blanks_around_the_value_of_a_header_are_removed_in_little_time() -> None:
    blanks = b" \t" * 25_000
    head = b"GET http://a.example/ HTTP/1.1\r\nA:" + blanks + b"b c" + b" " * 9
    assert parse_whole(head + b"\r\n\r\n").headers == (b"a: b c",)
    with pytest.raises(BadRequest):
        parse_http(head + b"\0\r\n\r\n")


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(BadRequest):
        parse_http(b"CONNECT a.example:443 HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES)
    with pytest.raises(BadRequest):
        parse_http(b"a" * (MAX_HEAD_BYTES + 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused_or_too_few(data: bytes) -> None:
    for parse in (parse_http, parse_socks, parse_status, parse_socks_greeting):
        try:
            parse(data)
        except BadRequest:
            pass


@given(st.binary(max_size=60), st.sampled_from([CONNECT, GET]), st.integers(0, 100))
def test_no_change_of_a_head_adds_a_line_to_what_the_server_gets(
    change: bytes, head: bytes, place: int
) -> None:
    try:
        request = parse_http(head[:place] + change + head[place:])
    except BadRequest:
        return
    if request is not None and not request.is_tunnel:
        sent = request.origin_head()
        assert sent.count(b"\r\n") == sent.count(b"\n") == sent.count(b"\r")
        assert sent.count(b"\r\nHost: ") == 1


def test_a_request_of_socks_has_a_name_or_an_address() -> None:
    name = b"\x05\x01\x00\x03\x0bexample.com\x01\xbbrest"
    assert parse_socks(name) == SocksRequest("example.com", 443, b"rest")
    assert parse_socks(b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50") == SocksRequest(
        "127.0.0.1", 80, b""
    )
    ipv6 = b"\x05\x01\x00\x04" + bytes(15) + b"\x01\x00\x50"
    assert parse_socks(ipv6) == SocksRequest("0:0:0:0:0:0:0:1", 80, b"")
    for end in range(len(name) - len(b"rest")):
        assert parse_socks(name[:end]) is None


@pytest.mark.parametrize("command", [2, 3, 0, 9])
def test_socks_can_only_connect(command: int) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_socks(bytes((5, command, 0, 1)) + bytes(6))
    assert socks_reply(refused.value.reply)[:2] == b"\x05\x07"  # command not supported


def test_a_greeting_of_socks_lists_methods_of_authentication() -> None:
    # The method 0 is "no authentication"; the result says whether the client offers it.
    assert parse_socks_greeting(b"\x05\x02\x00\x02rest") == (True, b"rest")
    assert parse_socks_greeting(b"\x05\x01\x02") == (False, b"")
    assert parse_socks_greeting(b"\x05\x02\x00") is None
    assert parse_socks_greeting(b"\x05") is None


def test_the_reply_of_another_proxy_has_a_status() -> None:
    assert parse_status(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest") == (200, b"rest")
    assert parse_status(b"HTTP/1.1 200") is None
    with pytest.raises(BadRequest):
        parse_status(b"SSH-2.0\r\n\r\n")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (b"https://a.example/", "https goes through a proxy by CONNECT"),
        (b"HTTPS://a.example/", "https goes through a proxy by CONNECT"),
        (b"/path", "names the whole URL"),
        (b"http://user:password@a.example/", "no user and password"),
        (b"ftp://a.example/", "names the whole URL"),
    ],
)
def test_a_request_without_a_url_of_http_is_refused_with_its_reason(
    target: bytes, reason: str
) -> None:
    with pytest.raises(BadRequest, match=reason):
        parse_http(b"GET " + target + b" HTTP/1.1\r\n\r\n")
