"""A client of ``tamis serve``: a collection on a server, with the methods of a matcher.

`calls.py` describes every call once; `client.py` and `async_client.py` send them.

>>> from tamis.client import Client
>>> with Client("http://127.0.0.1:8080", "offers") as c:              # doctest: +SKIP
...     c.match({"price": 20})
['cheap']
"""

from __future__ import annotations

from tamis.errors import MissingExtraError

try:
    import httpx2 as _httpx2  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtraError(
        "tamis.client needs httpx2; install it with: pip install 'tamis[client]'"
    ) from None

from tamis.client.async_client import AsyncClient
from tamis.client.client import Client
from tamis.client.errors import RequestError

__all__ = ["AsyncClient", "Client", "RequestError"]
