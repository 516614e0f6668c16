"""Object stores that refuse, are overloaded, lose answers or are not there."""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.s3_server import S3Server

from tailrace.checkpoint.stores import (
    ObjectMissingError,
    StoreAddressError,
    StoreError,
    StoreExtraMissingError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
    claim,
    open_store,
)


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.answer(self, body)

    def __getattr__(self, name):
        if name.startswith("do_"):  # each method of HTTP
            return self.answer
        raise AttributeError(name)

    def log_message(self, *_arguments):
        """Nothing."""


@contextlib.contextmanager
def serving(answer):
    """Serve HTTP on loopback; ``answer(request, body)`` writes each answer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answer = answer
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def store_at(endpoint):
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    return open_store("s3://checkpoints/x", keys | {"endpoint": endpoint})


@pytest.mark.parametrize(
    ("status", "code", "kind", "transient"),
    [
        (403, "AccessDenied", StorePermissionError, False),
        (401, "Unauthorized", StorePermissionError, False),
        (404, "NoSuchBucket", StoreAddressError, False),
        (500, "InternalError", StoreUnreachableError, True),
        (503, "SlowDown", StoreUnreachableError, True),
        (429, "TooManyRequests", StoreUnreachableError, True),
        (507, "XMinioStorageFull", StoreFullError, False),
        (403, "QuotaExceeded", StoreFullError, False),
        (501, "NotImplemented", StoreUnsupportedError, False),
        (400, "InvalidRequest", StoreError, False),
    ],
)
def test_an_answer_is_named(status, code, kind, transient):
    def refuse(request, _body):
        text = f"<Error><Code>{code}</Code></Error>".encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    with serving(refuse) as endpoint:
        store = store_at(endpoint)
        for call in (lambda: store.put_new("a", b"1"), lambda: store.get("a"), lambda: list(store.list())):
            with pytest.raises(StoreError) as failed:
                call()
            assert (type(failed.value), failed.value.transient) == (kind, transient)
            assert "s3://checkpoints/x" in str(failed.value)
            assert "Debug source" not in str(failed.value)


def test_nobody_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: refused
        store = store_at(f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(StoreUnreachableError, match=r"write 'a' at s3://checkpoints/x"):
            store.put_new("a", b"1")


def test_a_server_that_ends_and_one_that_is_there_again(s3):
    other = S3Server()
    store = open_store(other.uri("x"))
    assert store.put_new("a", b"1")
    other.kill()
    with pytest.raises(StoreUnreachableError):
        store.get("a")
    with pytest.raises(ObjectMissingError, match="'a'"):
        open_store(s3.uri("elsewhere")).get("a")


def test_a_write_whose_answer_was_lost_is_claimed_by_who_made_it(s3):
    lost = [2]  # answers that do not come through
    host = s3.endpoint.removeprefix("http://")

    def forward(request, body):
        behind = http.client.HTTPConnection(host, timeout=30)
        behind.request(request.command, request.path, body, dict(request.headers))
        answer = behind.getresponse()
        text = answer.read()
        behind.close()
        if request.command == "PUT" and lost[0]:
            lost[0] -= 1
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True
            return
        request.send_response(answer.status)
        for header in ("ETag", "Last-Modified"):
            if header in answer.headers:
                request.send_header(header, answer.headers[header])
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    with serving(forward) as endpoint:
        store = store_at(endpoint)
        for _ in range(5):
            try:
                won = claim(store, "lost/manifest", b"attempt 7")
                break
            except StoreUnreachableError:
                continue
        assert won is True
        assert lost == [0]
        assert claim(store, "lost/manifest", b"attempt 8") is False
        assert store.get("lost/manifest") == b"attempt 7"


def test_a_bucket_that_is_missing(s3):
    store = open_store(s3.uri("x", bucket="no-such-bucket"))
    for call in (lambda: store.put_new("a", b""), lambda: store.get("a"), lambda: list(store.list())):
        with pytest.raises(StoreAddressError, match="Make the bucket first"):
            call()


def test_a_wrong_option_names_the_nearest():
    with pytest.raises(StoreAddressError, match="Did you mean 'endpoint'"):
        open_store("s3://bucket/x?endpont=http://127.0.0.1:1")
    with pytest.raises(StoreAddressError, match="no option 'endpoint'"):
        open_store("gs://bucket/x", {"endpoint": "http://127.0.0.1:1"})


def test_credentials_are_in_no_message():
    store = open_store("s3://bucket/x?access_key_id=AKIA&secret_access_key=hush&endpoint=http://127.0.0.1:1")
    assert repr(store) == "CloudStore('s3://bucket/x')"
    with pytest.raises(StoreError) as failed:
        store.get("a")
    assert "hush" not in str(failed.value)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StoreExtraMissingError, match=r"tailrace\[object-store\]") as failed:
        open_store("s3://bucket/x")
    assert failed.value.exit_code == 6
