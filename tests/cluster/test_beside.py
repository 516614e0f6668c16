"""``python my_job.py`` with a module beside it: executors have neither file, and need neither."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark
SCRIPT = """
import helpers
import tailrace as tr

if __name__ == "__main__":
    flow, out = tr.Topology("beside"), tr.sinks.collect()
    flow.source(tr.sources.items([1, 2, 3])).shuffle().map(helpers.step, tasks=2).sink(out)
    query = tr.start(flow, workers=2, settings=tr.Settings(register_timeout_s=200.0))
    query.awaitTermination(150)
    print(sorted(out.values))
"""


@pytest.mark.timeout(400)
def test_a_script_with_a_module_beside_it_runs_on_executors(tmp_path):
    (tmp_path / "helpers.py").write_text("STEP = 5\n\ndef step(x):\n    return x + STEP\n")
    script = tmp_path / "my_job.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=350, env=environment
    )
    assert found.stdout.strip().endswith("[6, 7, 8]"), found.stderr[-3000:]
