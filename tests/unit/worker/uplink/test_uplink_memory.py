"""The gate's table: what is written is read, files are private, and a dead holder of the lock blocks nobody."""

from __future__ import annotations

import multiprocessing
import signal

import pytest

from tailrace.protocol import Peer
from tailrace.sending.gate import Cursor, Entry, Grant
from tailrace.transport.segments import Folder, ForeignSegmentError, SegmentError
from tailrace.worker.uplink.node_peers import NodePeers, node_name
from tailrace.worker.uplink.shared_memory import UplinkTable


@pytest.fixture
def folder():
    made = Folder.make(watched=False)
    yield made
    made.close()


def test_rows_and_turns_are_read_as_they_were_written(folder):
    path = str(folder.path / "table")
    table, other = UplinkTable.create(path), UplinkTable.attach(path)
    entries = [Entry(3, 1, -1, 7, 70, 5, 6, True, 2), Entry(40, 0, -1, 1, 0, 8, 9)]
    for entry in (*entries, Entry(9, 0, -1, 0, 0, 1, 2)):
        table.show(entry)
    grant = Grant(3, 4, 99, Cursor(1, 3))
    table.set_turn(55, grant, 2)
    assert list(other.entries().values()) == entries
    other.grant(3, 1)
    assert (table.granted(3), table.entries()[3]) == (1, entries[0]._replace(tuples=6, bytes=60, first=1))
    other.grant(3, 1)
    assert table.entries()[3] == entries[0]._replace(tuples=5, bytes=50, first=0)
    other.grant(3, 5)
    assert list(table.entries()) == [40]
    assert other.turn() == (55, grant._replace(tuples_max=2))
    table.delay(-5)
    assert other.turn().free_ns == 50
    table.close()
    other.close()
    assert (folder.path / "table").stat().st_mode & 0o777 == 0o600


def test_what_is_there_already_or_is_no_table_is_refused(folder):
    path = str(folder.path / "table")
    UplinkTable.create(path).close()
    with pytest.raises(ForeignSegmentError):
        UplinkTable.create(path)
    for content in (b"", b"x" * 1_000_000):
        (folder.path / "else").write_bytes(content)
        (folder.path / "else").chmod(0o600)
        with pytest.raises(SegmentError, match="table"):
            UplinkTable.attach(str(folder.path / "else"))


def hold(path, held):
    table = UplinkTable.attach(path)
    assert table.lock()
    held.set()
    signal.pause()


def test_the_lock_goes_with_its_holder(folder):
    path = str(folder.path / "table")
    table = UplinkTable.create(path)
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    holder = context.Process(target=hold, args=(path, held))
    holder.start()
    assert held.wait(60)
    assert not table.lock()
    holder.kill()
    holder.join()
    assert table.lock()
    table.unlock()
    table.close()


def peer(slot, folder, node, table):
    probe = folder.write_probe()
    return Peer(slot, 1, "h", ("h", 1), probe_path=probe.path, probe_nonce=probe.nonce, node=node, uplink_table=table)


def test_workers_of_a_node_meet_at_the_table_of_the_lowest_slot():
    folders = [Folder.make(watched=False) for _ in range(3)]
    try:
        nodes = ["a", "a", "b"]
        paths = [str(folder.path / "table") for folder in folders]
        known = [NodePeers(slot, nodes[slot], paths[slot]) for slot in range(3)]
        peers = [peer(slot, folders[slot], nodes[slot], paths[slot]) for slot in range(3)]
        met = [each.meet(peers) for each in known]
        assert [near for near, _ in met] == [{0, 1}, {0, 1}, {2}]
        met[0][1].show(Entry(5, 0, -1, 1, 0, 0, 0))
        assert [len(table.entries()) for _, table in met] == [1, 1, 0]
        gone = Peer(0, 2, "h", ("h", 1), probe_path="/nowhere", probe_nonce="", node="a", uplink_table="/nowhere")
        near, table = known[1].meet([gone, *peers[1:]])
        assert (near, table.entries()) == ({1}, {})
        for each in known:
            each.close()
    finally:
        for folder in folders:
            folder.close()


def test_what_counts_as_a_node_is_a_setting():
    assert [node_name(kind, "7", 2) for kind in ("host", "executor", "worker")] == ["", "executor-7", "worker-2"]
