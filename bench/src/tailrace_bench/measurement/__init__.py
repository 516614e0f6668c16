"""What every bench measures with: how long and how often, and on what machine.

``plan``, ``rounds`` and ``sustain`` say which windows are taken, ``machine`` and ``proc`` what they are taken on;
``pace`` shows how far a run is, ``arrivals`` notes what reached a sink, ``inside`` looks into a running query.
"""

from __future__ import annotations
