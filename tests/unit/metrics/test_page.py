"""The metrics page: bounded connections, silent ones cut off, a taken port named."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from tailrace.errors import ConfigError
from tailrace.metrics import page as pages
from tailrace.metrics.page import MetricsPage, check_port

HANG_S = 30.0


@pytest.fixture
def patience(monkeypatch):
    """Silence is cut off sooner than users' is: what is tested is that it is."""
    assert pages.SILENT_S < HANG_S
    monkeypatch.setattr(pages, "SILENT_S", 0.3)


@pytest.fixture
def page():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shown = MetricsPage(port, lambda: "up 1\n")
    yield shown
    shown.close()


def read(page, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}{path}", timeout=HANG_S) as answer:
        return answer.read()


def silent(page):
    return socket.create_connection(("127.0.0.1", page.port), timeout=HANG_S)


def test_the_page_shows_metrics(page):
    assert read(page) == b"up 1\n"


@pytest.mark.usefixtures("patience")
def test_silent_connections_are_cut_off(page):
    with silent(page) as sock:
        assert sock.recv(1) == b""


def test_a_crowd_of_silent_connections_keeps_nobody_out(page):
    crowd = [silent(page) for _ in range(3 * pages.CONNECTIONS_MAX)]
    try:
        assert read(page) == b"up 1\n"
        assert crowd[0].recv(1) == b""  # the oldest went first
        assert len(page._server._open) <= pages.CONNECTIONS_MAX
    finally:
        for each in crowd:
            each.close()


def test_a_port_that_is_taken_is_named(page):
    for refused in (lambda: check_port(page.port), lambda: MetricsPage(page.port, str)):
        with pytest.raises(ConfigError, match=str(page.port)):
            refused()
    check_port(0)
