"""Signatures of Standard Webhooks: the receiver can check who sent a message, and when."""

from __future__ import annotations

import base64
import hashlib
import hmac

__all__ = ["SECRET_PREFIX", "sign", "sign_request"]

SECRET_PREFIX = "whsec_"  # the prefix of every secret, not one itself


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The value of the header ``webhook-signature``.

    Parameters
    ----------
    secret
        ``whsec_`` and the key in base64.
    id, timestamp
        The values of ``webhook-id`` and ``webhook-timestamp``, which is in seconds since 1970.
    body
        The message.
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(signed).decode()


def sign_request(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of the request that sends a message; the parameters are those of `sign`."""
    return {
        "content-type": "application/json",
        "user-agent": "tamis",
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, id, timestamp, body),
    }
