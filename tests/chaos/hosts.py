"""A host of plain processes that a test can take a worker away from: it stops or proxies the first worker of a slot."""

from __future__ import annotations

import dataclasses

from tailrace.testing import ProcessHost


class TwoOfASlot(ProcessHost):
    """Starts a second process for a slot on demand, while the first is still there."""

    def launch(self, boot):
        self.boot = boot
        super().launch(boot)

    def start_another(self, slot):
        """Do what Spark does when it takes a living worker for lost; gives the first one, which nobody looks after."""
        first = self.processes[slot]
        self.processes[slot] = self._start(self.boot, slot)
        return first


class OneByProxy(ProcessHost):
    """Lets the first worker of one slot reach the coordinator only through a proxy; its successors go straight."""

    def __init__(self, workers, slot, open_proxy):
        super().__init__(workers)
        self._slot = slot
        self._open_proxy = open_proxy

    def _start(self, boot, slot):
        if slot == self._slot and not self._launches[slot]:
            boot = dataclasses.replace(boot, address=self._open_proxy(*boot.address).address)
        return super()._start(boot, slot)
