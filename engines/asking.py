"""A request to an engine's server, and what can go wrong with it, in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from planner.documents.document import PlannerError

Answered = TypeVar("Answered")

ANSWER_S = 600.0
HEALTH_S = 10.0
"""Patience with the question for a server's health; SGLang decodes a token before it says so."""


@contextmanager
def asked(
    engine: str, address: str, content: Mapping[str, Any] | None = None
) -> Iterator[HTTPResponse]:
    """The answer of a server to `content`, or to nothing but its address, to be read.

    engine  how errors call it

    Raises PlannerError where it refuses, stops answering, or is not understood as JSON.
    """
    body = None if content is None else json.dumps(content).encode()
    request = Request(address, body, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=ANSWER_S) as answer:
            yield answer
    except HTTPError as error:
        said = " ".join(error.read().decode(errors="replace").split())
        raise PlannerError(
            f"engine: {engine} refused a request: {(said or str(error))[:300]}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        raise PlannerError(f"engine: {engine} stopped answering: {error}") from None


def at_once(ask: Callable[[], Answered], requests: int) -> list[Answered]:
    """The answers to so many equal requests, asked together."""
    with ThreadPoolExecutor(requests) as pool:
        return [each.result() for each in [pool.submit(ask) for _ in range(requests)]]


def is_healthy(address: str) -> bool:
    """Does the server there say that it is ready?"""
    try:
        with urlopen(f"{address}/health", timeout=HEALTH_S) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False
