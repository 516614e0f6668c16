"""Builds the C stress programs of the ring and runs them: ``python -m tests.stress.ring_stress [part ...] [--quick]``.

Parts: processes (load across processes), sanitizers (the same in threads under TSan, ASan and UBSan), kills (processes
killed and stopped between any two steps), explore (exhaustive search of the protocol), faults (the same search over
copies of the protocol with one seeded fault each, which it must find). ``make stress`` runs all in full length, ``make
test`` runs each with ``--quick``. Touches a temporary folder and /dev/shm.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "native"
RING = [str(NATIVE / f"ring_{part}.c") for part in ("map", "peers", "protocol", "wait")]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
RUN_S_MAX = 3600


class Program(NamedTuple):
    """One program, how it is built, and its runs in full and in quick length."""

    source: str
    flags: list[str]
    libraries: list[str]
    full: list[str]
    quick: list[str]


TSAN = ["-O1", "-fsanitize=thread"]
ASAN = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

PARTS = {
    "processes": [
        Program(
            "ring_stress.c",
            ["-O2"],
            RING,
            ["processes 4 5000000 1", "processes 4 5000000 4", "processes 4 1000000 4 65536"],
            ["processes 4 100000 1", "processes 4 100000 4", "processes 3 20000 2 16384"],
        )
    ],
    "sanitizers": [
        Program(
            "ring_stress.c",
            TSAN,
            RING,
            ["threads 4 500000 1 65536", "threads 4 500000 4 65536"],
            ["threads 3 15000 2 65536"],
        ),
        Program(
            "ring_stress.c",
            ASAN,
            RING,
            ["threads 4 1000000 1", "threads 4 1000000 4 65536"],
            ["threads 3 30000 2 65536"],
        ),
    ],
    "kills": [
        Program(
            "ring_kills.c",
            ["-O2", "-DRING_TEST_POINTS"],
            RING,
            ["producer 1000 100", "consumer 1000 100", "stop 200"],
            ["producer 80", "consumer 80", "stop 8"],
        )
    ],
    "explore": [Program("ring_explore.c", ["-O1"], [], ["full"], ["quick"])],
}


class Fault(NamedTuple):
    """One change that breaks the protocol, and the explorer's scenario that must notice."""

    name: str
    file: str
    before: str
    after: str
    scenario: str


PROTOCOL = "ring_protocol.c"
WAIT = "ring_wait.c"
PEERS = "ring_peers.c"
CLAIM = "ring_store(&head->control, claim);\n        if (false) {"
FAULTS = [
    Fault("live peers count as dead", PEERS, "ring_identity_is_dead(identity)) {", "true) {", "0"),
    Fault("a place is not checked again", PROTOCOL, "ring_load(&r->file->peers[peer]) != dead[peer]", "false", "9"),
    Fault("holes are not looked at again", PROTOCOL, "if (r->hole_count == 0 || !find", "if (true || !find", "2"),
    Fault("the arena fills to the brim", PROTOCOL, "needed >= r->arena_units", "needed > r->arena_units", "2"),
    Fault("sleeping is not announced", WAIT, "ring_store(&r->file->sleeping, 1);", "", "2"),
    Fault("patience is not taken back", WAIT, "&r->file->patient, patient ? 1 : 0", "&r->file->patient, 1", "10"),
    Fault("a producer sleeps at once", WAIT, "    result = ring_reserve(r, units, ticket);\n        i", "i", "2"),
    Fault(
        "two consumers may claim one record", PROTOCOL, "if (!ring_cas(&head->control, &control, claim)) {", CLAIM, "0"
    ),
]


def build(program: Program, folder: Path) -> Path:
    """Compile one program."""
    target = folder / f"{Path(program.source).stem}-{abs(hash(tuple(program.flags)))}"
    command = ["gcc", *FLAGS, *program.flags, "-o", str(target), str(HERE / program.source), *program.libraries]
    subprocess.run(command, check=True)
    return target


def say(line: str) -> None:
    """Print at once: the programs below write to the same output."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def without_randomisation() -> list[str]:
    """Help old sanitizer runtimes, which cannot place their shadow memory in a widely randomised address space."""
    prefix = ["setarch", "-R"]
    usable = shutil.which("setarch") and subprocess.run([*prefix, "true"], check=False).returncode == 0
    return prefix if usable else []


def run_part(name: str, folder: Path, *, quick: bool) -> bool:
    """Run one part; False if any of its programs found a fault."""
    good = True
    for program in PARTS[name]:
        target = build(program, folder)
        for arguments in program.quick if quick else program.full:
            began_s = time.monotonic()
            command = [str(target), *arguments.split()]
            if "-fsanitize=thread" in program.flags:
                command = [*without_randomisation(), *command]
            code = subprocess.run(command, check=False, timeout=RUN_S_MAX).returncode
            verdict = "ok" if code == 0 else f"FAILED with {code}"
            say(f"[{name}] {arguments}: {verdict}, {time.monotonic() - began_s:.1f} s")
            good = good and code == 0
    return good


def run_faults(folder: Path, *, quick: bool) -> bool:
    """Explore each faulty copy; False if the explorer overlooks a fault."""
    good = True
    for fault in FAULTS[: 4 if quick else None]:
        tree = Path(tempfile.mkdtemp(dir=folder))
        shutil.copytree(NATIVE, tree / "native")
        shutil.copytree(HERE, tree / "tests" / "stress")
        text = (tree / "native" / fault.file).read_text()
        if text.count(fault.before) != 1:
            raise LookupError(f"the fault {fault.name!r} no longer fits {fault.file}")
        (tree / "native" / fault.file).write_text(text.replace(fault.before, fault.after))
        target = tree / "explore"
        source = str(tree / "tests" / "stress" / "ring_explore.c")
        subprocess.run(["gcc", *FLAGS, "-O1", "-w", "-o", str(target), source], check=True)
        run = subprocess.run(
            [str(target), fault.scenario], check=False, timeout=RUN_S_MAX, capture_output=True, text=True
        )
        found = run.returncode == 1 and run.stdout.startswith("FAILED")
        say(f"[faults] {fault.name}: {run.stdout.strip() if found else 'OVERLOOKED'}")
        good = good and found
    return good


def main() -> int:
    """Run the named parts, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help="default: all")
    parser.add_argument("--quick", action="store_true", help="short runs")
    options = parser.parse_args()
    names = options.parts or [*PARTS, "faults"]
    if platform.machine() != "x86_64":
        say("explore and faults are left out: the explorer is written for x86-64")
        names = [name for name in names if name not in {"explore", "faults"}]
    with tempfile.TemporaryDirectory(prefix="tailrace-stress-") as made:
        folder = Path(made)
        results = [
            run_faults(folder, quick=options.quick) if name == "faults" else run_part(name, folder, quick=options.quick)
            for name in names
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
