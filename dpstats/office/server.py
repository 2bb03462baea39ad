"""The two listeners of an office in one process: one for analysts, one for the keeper."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

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
    places = ((office.listen, False), (office.keeper_listen, True))
    listeners = [
        Listener(
            uvicorn.Config(
                create_app(service, keeper=keeper),
                host=host,
                port=port,
                ssl_certfile=None if office.tls is None else str(office.tls[0]),
                ssl_keyfile=None if office.tls is None else str(office.tls[1]),
                proxy_headers=office.behind_tls,
                # Tracebacks have paths, and addresses may have formulas.
                log_level="critical",
                access_log=False,
                server_header=False,
                limit_concurrency=512,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=5,
            )
        )
        for (host, port), keeper in places
    ]
    service.start()
    for (host, port), keeper in places:
        print(f"{'The keeper' if keeper else 'Analysts'}: http{'s' if office.tls else ''}://{host}:{port}", flush=True)
    try:
        asyncio.run(_both(listeners))
    finally:
        service.stop()


async def _both(listeners: list[Listener]) -> None:
    def stop() -> None:
        for listener in listeners:
            listener.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    work = [asyncio.create_task(listener.serve()) for listener in listeners]
    await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    stop()  # one that cannot listen ends the other
    await asyncio.gather(*work)
