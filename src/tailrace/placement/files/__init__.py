"""Task graphs from files: topology files in JSON, and graphs in the METIS format.

``tailrace place`` and the placement bench read them; policies never do.
"""

from __future__ import annotations
