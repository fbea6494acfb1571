"""The service: what it is assembled from, whose request it is, and what its errors say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from deerstore import StorageConfig
from deerstore.errors import (
    ActiveRunConflictError,
    AlreadyExistsError,
    ConnectionLostError,
    DeerstoreError,
    InvalidMetadataFilterError,
    InvalidValueError,
    PoolTimeoutError,
    RetryableError,
)
from deerstore.gateway import current_user, gateway_runtime
from examples.gateway.agent import build_agent
from examples.gateway.bridge import StreamBridge
from examples.gateway.routes import router
from examples.gateway.worker import Worker

_STATUS_CODES: dict[type[DeerstoreError], int] = {
    ActiveRunConflictError: 409,
    AlreadyExistsError: 409,
    ConnectionLostError: 503,
    InvalidMetadataFilterError: 422,
    InvalidValueError: 422,
    PoolTimeoutError: 503,
    RetryableError: 503,
}


def create_app(config: StorageConfig | str | None = None, **settings: Any) -> FastAPI:
    """The service over one database; `config` and `settings` are those of `gateway_runtime`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with gateway_runtime(config, **settings) as runtime:
            agent = build_agent(runtime.checkpointer, runtime.store)
            app.state.worker = Worker(runtime, agent, StreamBridge())
            yield

    app = FastAPI(title="A gateway over deerstore", lifespan=lifespan)
    app.add_middleware(RequestUser)
    app.add_exception_handler(DeerstoreError, _explain)
    app.include_router(router)
    return app


class RequestUser:
    """Makes the user that the proxy in front has authenticated the user of the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        named = dict(scope["headers"]).get(b"x-user-id", b"anonymous")
        scope["user_id"] = named.decode("latin-1")
        with current_user(scope["user_id"]):
            await self._app(scope, receive, send)


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, DeerstoreError)
    status = next(
        (_STATUS_CODES[kind] for kind in type(error).__mro__ if kind in _STATUS_CODES), 500
    )
    body = {"detail": str(error), "code": error.code}
    if isinstance(error, ActiveRunConflictError):
        body["reason"] = error.reason
    return JSONResponse(body, status)
