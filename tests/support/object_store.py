"""An object store that speaks as much of S3 as pyarrow asks for, over HTTP, in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET: Final = "bucket"
_NAMESPACE: Final = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class ObjectStoreServer(ThreadingHTTPServer):
    """Objects by their key; a part of an upload is no object yet."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.refuses = False

    @property
    def where(self) -> str:
        """An archive in it."""
        return (
            f"s3://{BUCKET}/region/archive?scheme=http&region=eu-central-1"
            f"&endpoint_override=127.0.0.1:{self.server_port}"
        )


class _Handler(BaseHTTPRequestHandler):
    server: ObjectStoreServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        found = self.server.objects.get(self._key)
        self._answer(404 if found is None else 200, found or b"")

    def do_GET(self) -> None:
        if "list-type" in self._query:
            return self._list()
        found = self.server.objects.get(self._key)
        if found is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if wanted := self.headers.get("Range"):
            first, last = wanted.removeprefix("bytes=").split("-")
            return self._answer(206, found[int(first) : int(last or len(found)) + 1])
        return self._answer(200, found)

    def do_PUT(self) -> None:
        body = self._body()
        if self.server.refuses:
            return self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if "partNumber" in self._query:
            self.server.uploads[self._query["uploadId"]][int(self._query["partNumber"])] = body
        else:
            self.server.objects[self._key] = body
        return self._answer(200)

    def do_POST(self) -> None:
        self._body()
        if "uploads" in self._query:
            if self.server.refuses:
                return self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
            upload = str(len(self.server.uploads))
            self.server.uploads[upload] = {}
            return self._xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        parts = self.server.uploads[self._query["uploadId"]]
        self.server.objects[self._key] = b"".join(parts[number] for number in sorted(parts))
        return self._xml("CompleteMultipartUploadResult", f"<Key>{escape(self._key)}</Key>")

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._key, None)
        self._answer(204)

    def _list(self) -> None:
        prefix = self._query.get("prefix", "")
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        folders = sorted({key[len(prefix) :].split("/")[0] + "/" for key in keys
                          if "/" in key[len(prefix) :]})  # fmt: skip
        if "delimiter" in self._query:
            keys = [key for key in keys if "/" not in key[len(prefix) :]]
        else:
            folders = []
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(prefix + each)}</Prefix></CommonPrefixes>"
            for each in folders
        )
        count = f"<KeyCount>{len(keys) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._xml("ListBucketResult", contents + common + count)

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    @property
    def _query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    def _body(self) -> bytes:
        """HTTP may send it in chunks, and AWS's library chunks of its own within these."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = _without_chunks(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        is_chunked = "X-Amz-Decoded-Content-Length" in self.headers
        return _without_chunks(BytesIO(body)) if is_chunked else body

    def _xml(self, name: str, inside: str) -> None:
        self._answer(200, f'<?xml version="1.0"?><{name} {_NAMESPACE}>{inside}</{name}>'.encode())

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{md5(body, usedforsecurity=False).hexdigest()}"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _without_chunks(stream: BufferedIOBase) -> bytes:
    """What was sent in chunks, each behind its length; a checksum may follow the last."""
    found = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        found += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass
    return found


@contextmanager
def object_store() -> Iterator[ObjectStoreServer]:
    """Serve an empty bucket."""
    with ObjectStoreServer() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()
