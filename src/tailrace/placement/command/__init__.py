"""``tailrace place``: the command and the pictures of an assignment that it prints or writes."""

from __future__ import annotations
