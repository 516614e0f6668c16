"""``tailrace bench dataframe``: a topology in a PySpark pipeline beside Spark's own Python UDFs.

``work`` has the functions that all arms call, ``arms`` runs them, ``run`` puts the parts together.
"""

from __future__ import annotations
