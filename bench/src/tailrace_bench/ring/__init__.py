"""``tailrace bench ring``: the shared-memory ring beside Unix sockets, TCP, ZeroMQ and Netty, and what a query gains.

``ends`` are the two processes of each pair (``channels`` how their bytes move, ``NettyEnd.scala`` the same in a JVM),
``pair`` starts and asks them, ``cases`` says what is asked and where the bars are, ``messages``, ``sweep``,
``wordcount`` and ``stages`` measure, ``run`` puts the parts together.
"""

from __future__ import annotations
