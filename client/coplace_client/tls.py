"""Why a server and this process do not believe each other: one line that names peer and setting."""

import socket
import ssl
import time
from pathlib import Path
from typing import Final, NamedTuple

from coplace_client.channels import GrpcSettings

_CONNECT_S: Final = 5.0
# In TLS 1.3 a server refuses a client's certificate behind the handshake.
_REFUSED_WITHIN_S: Final = 1.0
# X509_V_ERR_* of OpenSSL.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OF_ANOTHER_HOST: Final = (62, 64)


class TlsFiles(NamedTuple):
    """The files of one peer's settings, and how the variables begin that name them."""

    prefix: str
    authority: Path | None
    certificate: Path | None
    key: Path | None

    @classmethod
    def of(cls, settings: object, peer: str) -> "TlsFiles":
        """Return the files for `kafka`, `redis` or `grpc`."""
        files = (getattr(settings, f"{peer}_{what}_file") for what in ("ca", "cert", "key"))
        return cls(f"COPLACE_{peer.upper()}", *files)

    @property
    def certificate_setting(self) -> str:
        """Return the variable of our certificate, and the file that it names."""
        return f"{self.prefix}_CERT_FILE={self.certificate}"


def own_certificate_problem(files: TlsFiles) -> str:
    """Return what is wrong with this process's own certificate, whoever is asked; empty if nothing
    is."""
    if files.certificate is None or files.key is None:
        return ""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key)
        decoded = ssl._ssl._test_decode_cert(str(files.certificate))  # type: ignore[attr-defined]
    except (ssl.SSLError, OSError) as error:
        return (
            f"{files.certificate_setting} and {files.prefix}_KEY_FILE={files.key} are not "
            f"a certificate and its key: {error.strerror or error}"
        )
    now_s = time.time()
    if now_s < ssl.cert_time_to_seconds(decoded["notBefore"]):
        return f"{files.certificate_setting} is not valid before {decoded['notBefore']}"
    if now_s > ssl.cert_time_to_seconds(decoded["notAfter"]):
        return f"{files.certificate_setting} has expired at {decoded['notAfter']}: renew it"
    return ""


def authority_problem(files: TlsFiles) -> str:
    """Return what is wrong with the file of the authorities that this process believes; empty if
    nothing is."""
    try:
        ssl.create_default_context(cafile=files.authority)
    except (ssl.SSLError, OSError) as error:
        return f"{files.prefix}_CA_FILE={files.authority} holds no certificate: {error}"
    return ""


def files_problem(settings: object, peer: str) -> str:
    """Return what is wrong with the files of a peer's settings; empty if nothing is."""
    files = TlsFiles.of(settings, peer)
    return authority_problem(files) or own_certificate_problem(files)


def tls_problem(peer: str, files: TlsFiles, error: ssl.SSLError) -> str:
    """Return what a failed TLS handshake means, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{peer} {_of_its_certificate(files, error)}"
    reason = error.reason or str(error)
    if "WRONG_VERSION_NUMBER" in reason:
        return f"{peer} does not speak TLS: is it the right port, and {files.prefix}_* for it?"
    if files.certificate is None and ("CERTIFICATE" in reason or "HANDSHAKE" in reason):
        return f"{peer} wants a certificate of ours: set {files.prefix}_CERT_FILE and _KEY_FILE"
    if "UNKNOWN_CA" in reason:
        return f"{peer} does not believe who signed {files.certificate_setting}"
    return f"{peer} refuses {files.certificate_setting}: {reason}"


def _of_its_certificate(files: TlsFiles, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return "shows a certificate that has expired: renew it there"
    if error.verify_code == _NOT_YET_VALID:
        return "shows a certificate that is not valid yet: is a clock wrong, there or here?"
    if error.verify_code in _OF_ANOTHER_HOST:
        return f"shows a certificate of another host: {error.verify_message}"
    signers = files.authority or "what this system trusts"
    return f"shows a certificate that {files.prefix}_CA_FILE={signers} did not sign"


def grpc_problem(settings: GrpcSettings, address: str) -> str:
    """Return why a gRPC server and this process do not believe each other; empty where they do, and
    where nobody answers at all."""
    files = TlsFiles.of(settings, "grpc")
    if files.authority is None and files.certificate is None:
        return ""
    if wrong := files_problem(settings, "grpc"):
        return wrong
    context = ssl.create_default_context(cafile=files.authority)
    context.set_alpn_protocols(["h2"])
    if files.certificate and files.key:
        context.load_cert_chain(files.certificate, files.key)
    host, _, port = address.rpartition(":")
    try:
        _shake_hands(context, host, int(port))
    except ssl.SSLError as error:
        return tls_problem(address, files, error)
    except ConnectionResetError:
        shown = files.certificate_setting if files.certificate else "that we show no certificate"
        return f"{address} ends the connection when it sees {shown}"
    except OSError:
        return ""
    return ""


def _shake_hands(context: ssl.SSLContext, host: str, port: int) -> None:
    """Raises OSError, ssl.SSLError among them, where the other side refuses; gRPC's begins with its
    settings, so that an end behind the handshake is a refusal too."""
    with (
        socket.create_connection((host, port), _CONNECT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.settimeout(_REFUSED_WITHIN_S)
        if not connection.recv(1):
            raise ConnectionResetError
