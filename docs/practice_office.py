"""A practice office on this machine, for the blocks of docs/office/analyst.md: wages that are public anyway."""

import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import uvicorn

import dpstats
from dpstats.datasets import load_wages
from dpstats.office.api import create_app
from dpstats.office.config import Office
from dpstats.office.service import Service

FILE = """
[office]
deadline = 0.5

[data.wages]
source = "wages.parquet"
domain = "codebook.json"
eps = 4.0
rows = 55000

[data.wages.columns]
wage = {description = "Wage and salary income of the year"}
female = {description = "1 for women"}
"""


def opened(folder: Path) -> tuple[str, str]:
    """The address of an office whose files are in the folder, and the token of an analyst; it ends with the process."""
    wages = load_wages()
    wages.data.to_parquet(folder / "wages.parquet")
    (folder / "codebook.json").write_text(wages.domain.to_json())
    (folder / "office.toml").write_text(FILE)
    office = Office.load(folder / "office.toml")
    for dataset in office.datasets.values():
        dataset.make_ledger().close()
    service, listening = Service(office), socket.create_server(("127.0.0.1", 0))
    service.start()
    server = uvicorn.Server(uvicorn.Config(create_app(service, keeper=False), log_level="critical", access_log=False))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{listening.getsockname()[1]}", service.add_analyst("Ada")


# Workers are processes of their own, which import the package that is here.
os.environ["PYTHONPATH"] = str(Path(dpstats.__file__).parents[1])
address, token = opened(Path(tempfile.mkdtemp()))
