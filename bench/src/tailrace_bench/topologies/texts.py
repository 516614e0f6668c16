"""What the topologies read: log lines of a server, short posts and random strings, the same for the same seed.

Posts are cut from the Wikipedia excerpt that ships with the package, with words that please or displease strewn in.
"""

from __future__ import annotations

import json
import random

from tailrace.data import wiki_path

_POSITIVE = "amazing awesome best fine free good great happy love lucky nice thanks win wonderful"
_NEGATIVE = "angry awful bad broken cry hate lost poor sad sorry terrible tired worst wrong"
_STOP = (
    "a about after all also an and any are as at be been but by for from had has have he her his i if in into is it "
    "its more most no not of on one or other she some such than that the their them there these they this to was we "
    "were which while who will with would you"
)
#: What the classifiers look for, and what is dropped before.
POSITIVE, NEGATIVE, STOP_WORDS = (frozenset(words.split()) for words in (_POSITIVE, _NEGATIVE, _STOP))
_LETTERS = "abcdefgh"
_DIGITS = "0123456789"
_USERS = ("root", "admin", "ubuntu", "deploy", "git", "postgres", "backup", "guest")
_HOSTS = 12


def log_lines(count: int = 500, seed: int = 1) -> list[str]:
    """Lines as a server's system log has them: who, which program, what."""
    rng = random.Random(seed)  # noqa: S311 - made-up logs, nothing secret
    return [_log_line(rng, number) for number in range(count)]


def _log_line(rng: random.Random, number: int) -> str:
    head = f"Mar {1 + number // 86400:2d} {number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}"
    host, pid = f"ip-10-77-20-{rng.randrange(_HOSTS)}", rng.randrange(300, 32000)
    address = ".".join(str(rng.randrange(1, 255)) for _ in range(4))
    user, port = rng.choice(_USERS), rng.randrange(1024, 65000)
    texts = (
        f"sshd[{pid}]: Failed password for invalid user {user} from {address} port {port} ssh2",
        f"sshd[{pid}]: Accepted publickey for {user} from {address} port {port} ssh2: RSA {rng.getrandbits(64):x}",
        f"CRON[{pid}]: pam_unix(cron:session): session opened for user {user} by (uid=0)",
        f"systemd-logind[{pid}]: New session {number} of user {user}.",
        f"kernel: [{number}.{pid:06d}] TCP: request_sock_TCP: Possible SYN flooding on port {port}. Sending cookies.",
        f"sudo: {user} : TTY=pts/{pid % 8} ; PWD=/home/{user} ; USER=root ; COMMAND=/usr/bin/apt-get update",
    )
    return f"{head} {host} {rng.choice(texts)}"


def posts(count: int = 500, seed: int = 1) -> list[str]:
    """Posts as JSON: an id, a user, a language and up to 140 characters of text."""
    rng = random.Random(seed)  # noqa: S311
    moods = sorted(POSITIVE | NEGATIVE)
    lines = wiki_path().read_text(encoding="utf-8").splitlines()
    found = []
    for number in range(count):
        words = rng.choice(lines).split()[:20]
        for _ in range(rng.randrange(4)):
            words.insert(rng.randrange(len(words) + 1), rng.choice(moods))
        text = f"@user{rng.randrange(1000)} {' '.join(words)} #topic{rng.randrange(50)}"[:140]
        found.append(json.dumps({"id": f"p{number}", "user": f"u{rng.randrange(5000)}", "lang": "en", "text": text}))
    return found


def strings(length: int, count: int = 64, seed: int = 1, letters: str = _LETTERS) -> list[str]:
    """Random strings of a length."""
    rng = random.Random(seed)  # noqa: S311
    return ["".join(rng.choices(letters, k=length)) for _ in range(count)]


def digits(length: int = 100) -> list[str]:
    """The hundred prebuilt messages of SOL."""
    return strings(length, 100, letters=_DIGITS)
