"""What sinks on the driver have taken, as objects: few of them, in order, and none that is broken goes unnoticed."""

from __future__ import annotations

import pytest

from tailrace.checkpoint.driver_objects import DriverObjects, DriverValue
from tailrace.checkpoint.errors import CheckpointCorruptError
from tailrace.checkpoint.manifest import Manifest
from tailrace.checkpoint.stores.memory import MemoryStore


def entry(epoch, driver=()):
    return Manifest(epoch, "checkpoint", "q", 1, 1, epoch, 0.0, False, (), (), (), {}, driver)


def value(number):
    return DriverValue("out", 0, number, b"%d" % number)


def test_values_come_back_in_order_from_few_objects():
    store, manifest = MemoryStore(), entry(0)
    objects = DriverObjects(store)
    for epoch in range(1, 129):
        manifest = objects.add(entry(epoch, manifest.driver), [value(epoch)])
    assert len(manifest.driver) <= 8
    later = DriverObjects(store)
    assert later.read(manifest.driver) == [value(number) for number in range(1, 129)]
    manifest = later.add(entry(129, manifest.driver), [value(129)])
    assert later.read(manifest.driver)[-1] == value(129)


def test_an_epoch_without_values_writes_nothing():
    store = MemoryStore()
    manifest = DriverObjects(store).add(entry(1, ("parts/0000000001-1-1-driver",)), [])
    assert manifest.driver == ("parts/0000000001-1-1-driver",)
    assert not store.list("")


def test_an_object_that_was_changed_is_an_error():
    store = MemoryStore()
    (name,) = DriverObjects(store).add(entry(1), [value(1)]).driver
    store.delete(name)
    store.put_new(name, b"something else")
    with pytest.raises(CheckpointCorruptError):
        DriverObjects(store).read([name])
