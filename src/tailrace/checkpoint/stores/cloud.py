"""Object stores of the clouds and what speaks like them: ``s3://``, ``gs://`` and ``az://``, through obstore.

Opened by the driver and by every worker, after its process was forked. Objects are created with If-None-Match and
pointers replaced with If-Match, so the server decides between writers. Needs the extra ``tailrace[object-store]``.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

from ...errors import nearest
from .errors import (
    ObjectMissingError,
    StoreAddressError,
    StoreError,
    StoreExtraMissingError,
    StoreFullError,
    StorePermissionError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from .store import ObjectInfo, ObjectStore, Tagged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from obstore.store import ObjectStore as Client

#: Options by scheme, under the names that obstore has for them; the first line is what most need.
OPTIONS: dict[str, frozenset[str]] = {
    "s3": frozenset({
        "endpoint", "region", "access_key_id", "secret_access_key", "session_token",
        "checksum_algorithm", "request_payer", "role_arn", "role_session_name", "server_side_encryption",
        "skip_signature", "sse_bucket_key_enabled", "sse_kms_key_id", "sts_endpoint", "unsigned_payload",
        "virtual_hosted_style_request", "web_identity_token_file",
    }),
    "gs": frozenset({
        "service_account", "service_account_key", "application_credentials",
        "base_url", "bearer_token", "skip_signature",
    }),
    "az": frozenset({
        "account_name", "account_key", "client_id", "client_secret", "tenant_id", "sas_key",
        "authority_host", "endpoint", "federated_token_file", "msi_endpoint", "object_id", "skip_signature", "token",
        "use_azure_cli", "use_emulator",
    }),
}  # fmt: skip
#: Seconds for one request with its body; a part of a checkpoint has to fit.
TIMEOUT_S = 120
CONNECT_TIMEOUT_S = 5
#: Few, since the caller retries too, and counts: the library would go on for three minutes by itself.
RETRIES = 2
_STATUS = re.compile(r"status code: (\d{3})")
_RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED = frozenset({401, 403})  # listings have no class of their own for these
_INSUFFICIENT_STORAGE = 507
_NOT_IMPLEMENTED = 501
_FULL = re.compile(r"QuotaExceeded|StorageFull|InsufficientStorage|AccountLimitExceeded|XMinioStorageFull")


class CloudStore(ObjectStore):
    """Objects below a prefix of a bucket."""

    reachable_from_workers = True

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(uri)
        self._client = _client(uri, dict(options or {}))

    def _put_new(self, name: str, data: bytes) -> bool:
        return self._put(name, data, "create") is not None

    def _put_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        return self._put(name, data, "create" if tag is None else json.loads(tag))

    def _put(self, name: str, data: bytes, mode: Any) -> str | None:
        import obstore  # noqa: PLC0415 - an extra
        from obstore import exceptions  # noqa: PLC0415

        with self._named("write", name):
            try:
                # In one request: of an upload in parts, only the last would carry the condition.
                done = obstore.put(self._client, name, data, mode=mode, use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return None
            except FileNotFoundError as error:
                if "NoSuchKey" in str(error):  # a pointer that was deleted has no tag
                    return None
                raise
        return _tag(done)

    def _get(self, name: str) -> bytes:
        return self._get_tagged(name).data

    def _get_tagged(self, name: str) -> Tagged:
        import obstore  # noqa: PLC0415

        with self._named("read", name):
            found = obstore.get(self._client, name)
            return Tagged(bytes(found.bytes()), _tag(found.meta))

    def _delete(self, name: str) -> None:
        import obstore  # noqa: PLC0415

        with self._named("delete", name), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._client, name)

    def _list(self, prefix: str) -> Sequence[ObjectInfo]:
        import obstore  # noqa: PLC0415

        with self._named("list", prefix):
            chunks = obstore.list(self._client, prefix=prefix or None)
            return [ObjectInfo(each["path"], each["size"]) for chunk in chunks for each in chunk]

    @contextlib.contextmanager
    def _named(self, doing: str, name: str) -> Iterator[None]:
        from obstore import exceptions  # noqa: PLC0415

        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise named(error, f"{doing} {name!r} at {self.address}") from error


def named(error: Exception, doing: str) -> StoreError:
    """Name what obstore says; it tells most kinds apart by class, and the server's answer by its text alone."""
    from obstore import exceptions  # noqa: PLC0415

    text = str(error).partition("\n\nDebug source")[0].strip()
    found = f"Could not {doing}; found: {text}"
    status = int(match[1]) if (match := _STATUS.search(text)) else 0
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return StoreAddressError(found, "Make the bucket first, or see whether its name and the endpoint are right.")
    if isinstance(error, FileNotFoundError):
        return ObjectMissingError(found)
    if status == _INSUFFICIENT_STORAGE or _FULL.search(text):
        return StoreFullError(found, "Free some room or raise the quota, or choose another address.")
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or status in _REFUSED:
        return StorePermissionError(
            found, "Give credentials that may read, write, list and delete there: as options or in the environment."
        )
    if isinstance(error, exceptions.NotSupportedError) or status == _NOT_IMPLEMENTED:
        return StoreUnsupportedError(
            found, "The server must take If-None-Match and If-Match with PUT; take one that does, or a folder."
        )
    if isinstance(error, exceptions.GenericError | OSError) and (not status or status in _RETRIED_STATUS):
        return StoreUnreachableError(found, "See whether the endpoint is right and answers from this machine.")
    return StoreError(found)


def _client(uri: str, options: dict[str, str]) -> Client:
    try:
        from obstore import exceptions, store  # noqa: PLC0415
    except ImportError as error:
        raise StoreExtraMissingError(
            f"{uri} needs obstore, which is not installed.",
            "pip install 'tailrace[object-store]', on the driver and on the executors.",
        ) from error
    known = OPTIONS[uri.partition(":")[0]]
    for option in options:
        if option not in known:
            raise StoreAddressError(f"{uri} has no option {option!r}.", nearest(option, known))
    plain = options.get("endpoint", options.get("base_url", "")).startswith("http://")
    try:
        return store.from_url(
            uri,
            config=options,
            client_options={
                "timeout": f"{TIMEOUT_S}s",
                "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
                **({"allow_http": True} if plain else {}),
            },
            retry_config={"max_retries": RETRIES},
        )
    except (exceptions.BaseError, ValueError) as error:
        text = str(error).partition("\n\nDebug source")[0].strip()
        raise StoreAddressError(
            f"{uri} with the options {', '.join(sorted(options)) or '(none)'} leads to no store; found: {text}",
            "Write for example s3://bucket/prefix?region=eu-central-1.",
        ) from error


def _tag(meta: Mapping[str, Any]) -> str:
    """Keep both: S3 and Azure compare the one, Google the other."""
    return json.dumps({part: meta[part] for part in ("e_tag", "version") if meta[part] is not None})
