"""The two listeners of an office in one process: one for analysts, one for the keeper."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import uvicorn

from dpstats.office.api import create_app
from dpstats.office.service import Service


class Listener(uvicorn.Server):
    """A server that leaves signals to its process, which has two."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(service: Service) -> None:
    """Answer until the process is told to stop; workers at work then finish by themselves."""
    office = service.office
    certificate, key = office.tls or (None, None)
    # Tracebacks have paths, and addresses may have formulas.
    common: dict[str, Any] = {"log_level": "critical", "access_log": False, "server_header": False}
    common |= {"ssl_certfile": certificate, "ssl_keyfile": key, "proxy_headers": office.behind_tls}
    common |= {"limit_concurrency": 512, "timeout_keep_alive": 5, "timeout_graceful_shutdown": 5}
    places = (("Analysts", *office.listen, False), ("The keeper", *office.keeper_listen, True))
    apps = [(create_app(service, keeper=keeper), host, port) for _, host, port, keeper in places]
    listeners = [Listener(uvicorn.Config(app, host=host, port=port, **common)) for app, host, port in apps]
    service.start()
    for who, host, port, _ in places:
        print(f"{who}: http{'s' if office.tls else ''}://{host}:{port}", flush=True)
    try:
        asyncio.run(_all(listeners))
    finally:
        service.stop()


async def _all(listeners: list[Listener]) -> None:
    def stop() -> None:
        for listener in listeners:
            listener.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    work = [asyncio.create_task(listener.serve()) for listener in listeners]
    await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    stop()  # one that cannot listen ends the other
    await asyncio.gather(*work)
