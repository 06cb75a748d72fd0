"""Which names a browser may call the server by: not another site by a name of its own (DNS rebinding)."""

import ipaddress
import re
import socket

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z.-]{1,253})(:[0-9]{1,5})?", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_host(header: str, bound: str) -> bool:
    """Whether a Host header names this machine: by an address, as localhost, or by its own name if it is served so.

    A name that resolves to this machine is what an attacker's page has; an address it cannot claim. Ports are not
    compared: a tunnel has another one.
    """
    found = _HOST.fullmatch(header)
    if found is None:
        return False
    name = found["name"].strip("[]").lower().removesuffix(".")
    if is_loopback(name):
        return True
    if is_loopback(bound):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {bound.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    return True
