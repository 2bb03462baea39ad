"""An office that is served over HTTP on this machine, as `dpstats serve` does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from dpstats.office.api import create_app


@contextlib.contextmanager
def served(service: Any, *, keeper: bool = False, **more: Any) -> Iterator[str]:
    """The address of the application on a free port."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = create_app(service, keeper=keeper, **more)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, server_header=False))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
