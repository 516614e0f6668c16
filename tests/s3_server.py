"""A real S3-compatible server for tests: moto as a process of its own, on loopback.

One request at a time: moto looks for an object and writes it in two steps, which only the real S3 makes one.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request

BUCKET = "checkpoints"


class S3Server:
    """A server with one bucket, that can be killed."""

    def __init__(self):
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        bucket = urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(bucket, timeout=30).close()

    def uri(self, prefix="", bucket=BUCKET):
        """Give the address of a store in it."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region=us-east-1&access_key_id=a&secret_access_key=b"

    def kill(self):
        """End it."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def s3_server():
    """Run a server."""
    server = S3Server()
    try:
        yield server
    finally:
        server.kill()


def _serve():
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    _serve()
