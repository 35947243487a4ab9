"""Who may ask a server of ours: host names, a token, and the limits of a request."""

import hmac
import ipaddress
import platform
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; object-src 'none';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
MOST_TARGET = 4096
"""Bytes of an address."""
MOST_HEADERS = 16_384
"""Bytes of all headers of a request; cookies of other programs on this machine are among them."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """Who may ask: by which names the server may be called, and with which token."""

    hosts: tuple[str, ...] = LOOPBACK
    any_address: bool = False
    """Whether any IP address is a good name. Names of other sites that point here (DNS rebinding) never are."""
    token: str | None = None

    def allows_host(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = host.lower().rpartition(":")[0] if _has_port(host) else host.lower()
        if name in self.hosts:
            return True
        try:
            return self.any_address and bool(ipaddress.ip_address(name.strip("[]")))
        except ValueError:
            return False

    def allows(self, given: str | None) -> bool:
        """Whether a token is the right one, compared in constant time."""
        return self.token is None or (given is not None and hmac.compare_digest(given.encode(), self.token.encode()))


def _has_port(host: str) -> bool:
    return ":" in host and not host.endswith("]")


def refuse(status: int, message: str, **headers: str) -> Response:
    """A refusal as plain text; the connection is closed."""
    return PlainTextResponse(f"{message}\n", status, {"connection": "close", **headers})


@dataclass(frozen=True)
class Site:
    """What differs between our servers: the command, what may be sent, what is open, and how a refusal looks."""

    command: str
    only_reads: bool = True
    """Whether content and every verb but GET and HEAD are refused here. If not, the application does that."""
    without_token: tuple[str, ...] = ()
    """Paths that are answered without the token."""
    refuse: Callable[..., Response] = refuse
    """Makes a refusal of a status, a message and headers."""

    @property
    def cookie(self) -> str:
        return f"cclm-{self.command}"


BOARD = Site("board")


class Guard:
    """Refuses requests that the server need not answer; adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, access: Access, site: Site = BOARD) -> None:
        self._app, self._access, self._site = app, access, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", POLICY)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, site = Headers(scope=scope), self._site
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.allows_host(hosts[0]):
            return site.refuse(
                400, f"this server is not called that; open the address that `cclm {site.command}` printed"
            )
        if site.only_reads and scope["method"] not in ("GET", "HEAD"):
            return site.refuse(405, "this server only reads: GET and HEAD", allow="GET, HEAD")
        if site.only_reads and (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
            return site.refuse(413, "no content is taken here")
        if len(scope.get("raw_path", b"")) + len(scope["query_string"]) > MOST_TARGET:
            return site.refuse(414, "the address is too long")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            return site.refuse(431, "the headers are too long")
        return None if scope["path"] in site.without_token else self._check_token(scope, headers)

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        if self._access.token is None:
            return None
        query = QueryParams(scope["query_string"]).get("token")
        if query is not None and self._access.allows(query):  # once; from then on a cookie, so that no link shows it
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._site.cookie, query, httponly=True, samesite="strict", path="/")
            return answer
        bearer = headers.get("authorization", "").partition("Bearer ")[2] or None
        if self._access.allows(bearer) or self._access.allows(self._cookie(headers)):
            return None
        message = f"this server needs its token: open the address that `cclm {self._site.command}` printed"
        return self._site.refuse(401, message, **{"www-authenticate": "Bearer"})

    def _cookie(self, headers: Headers) -> str | None:
        found = SimpleCookie(headers.get("cookie", "")).get(self._site.cookie)
        return found.value if found else None


def access_to(host: str, token: str | None) -> Access:
    """Who may ask a server that listens on this address; beyond this machine nobody without a token."""
    if is_loopback(host):
        return Access((*LOOPBACK, host.lower()), token=token)
    names = (*LOOPBACK, host.lower(), platform.node().lower())
    return Access(names, any_address=True, token=token or secrets.token_urlsafe(16))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
