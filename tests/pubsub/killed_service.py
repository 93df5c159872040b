"""`tamis serve`, to be killed; run by `kills.py` in a process of its own.

The process waits for lines on its input. For each it forks a child that serves the folder on a free
port, says the port and its process id, and serves until it is killed. The process itself opens
nothing, so that it has no threads when it forks.

Usage: python -m tests.pubsub.killed_service FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from tamis.pubsub import WebhookSettings
from tamis.server.run import make_runner
from tamis.server.settings import ServerSettings

SETTINGS = WebhookSettings(allowed_networks=("127.0.0.0/8",), delays=(0.02,) * 500, seconds=5)


def serve(folder: Path) -> None:
    """Serve a folder until the process is killed."""
    # What the server logs is of no interest here.
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    settings = ServerSettings(folder=folder, port=0, access_log=False, webhooks=SETTINGS)
    runner = make_runner(settings)

    def wait() -> None:
        while not runner.started or not runner.port:
            time.sleep(0.01)
        say(json.dumps([runner.port, os.getpid()]))

    threading.Thread(target=wait, daemon=True).start()
    runner.run()


def say(text: str) -> None:
    """Write a line to the output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """Fork a service for every line of the input."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                serve(folder)
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
        say("ended")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
