"""Services that a client cannot use: its message, its delay, and its retries."""

from __future__ import annotations

import datetime
import http.server
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from sudare import errors
from sudare.client import Client

TOKEN = "sudare_" + 64 * "0"
AT_ONCE = 3.0
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n[]"


class Answering(http.server.BaseHTTPRequestHandler):
    """Responds to every request with an empty list."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


class Quiet(http.server.ThreadingHTTPServer):
    """A server of tests, which expects failed handshakes."""

    def handle_error(self, *_: object) -> None:
        pass


Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server with a certificate, or without TLS, and returns its port."""
    running = []

    def begin(certificate: trustme.LeafCert | None = None) -> int:
        server = Quiet(("127.0.0.1", 0), Answering)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(context)
            # The handshake happens in the thread of the connection.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return int(server.server_port)

    yield begin
    for server in running:
        server.shutdown()
        server.server_close()


def explained(url: str, *words: str, verify: bool | str = True) -> None:
    """Expects an error at once, with these words and no advice to call again."""
    begun = time.monotonic()
    with Client(url, TOKEN, verify=verify) as client, pytest.raises(errors.UnreachableError) as refused:
        client.jobs()
    took = time.monotonic() - begun
    text = str(refused.value)
    assert refused.value.kind == "NoConnection" and all(word in text for word in words), text
    assert "call again" not in text and took < AT_ONCE, (took, text)
    print(f"{took:.2f} s: {text}")


def test_lasting_problems_are_explained_at_once(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    explained(f"http://127.0.0.1:{port}", "nothing listens there")
    explained("https://no-such-host.invalid", "no such host is known")
    explained(f"https://127.0.0.1:{start()}", "does not speak TLS", "--tls-cert")

    authority, other = trustme.CA(), trustme.CA()
    trusted, wrong = tmp_path / "trusted.pem", tmp_path / "wrong.pem"
    authority.cert_pem.write_to_path(trusted)
    other.cert_pem.write_to_path(wrong)
    secure = start(authority.issue_cert("127.0.0.1"))
    explained(f"https://127.0.0.1:{secure}", "no public authority signed", "verify")
    explained(f"https://127.0.0.1:{secure}", "wrong.pem did not sign", verify=str(wrong))
    explained(f"https://localhost:{secure}", "for other names", verify=str(trusted))
    # An alert of TLS, as `sudare serve` sends it.
    explained(closing(0, answer=b"\x15\x03\x03\x00\x02\x02\x46"), "is not HTTP", "use https://")
    with Client(f"https://127.0.0.1:{secure}", TOKEN, verify=str(trusted)) as client:
        assert client.jobs() == []

    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    old = start(authority.issue_cert("127.0.0.1", not_before=now - 9 * day, not_after=now - day))
    explained(f"https://127.0.0.1:{old}", "has expired: its operator must renew it", verify=str(trusted))
    early = start(authority.issue_cert("127.0.0.1", not_before=now + day, not_after=now + 9 * day))
    explained(f"https://127.0.0.1:{early}", "not valid yet", verify=str(trusted))


def test_files_of_authorities_are_checked_first(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingFileError, match="No such file.*pass the file"):
        Client("https://127.0.0.1", TOKEN, verify=str(tmp_path / "none.pem"))
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    with pytest.raises(errors.FileError, match="pass the file of an authority's certificate"):
        Client("https://127.0.0.1", TOKEN, verify=str(empty))
    with pytest.raises(errors.ArgumentError, match="token") as refused:
        Client("https://127.0.0.1", "sudare_01\u00e9")
    assert "sudare_01" not in str(refused.value)


def closing(closed: int, silent: float = 0.0, answer: bytes = EMPTY) -> str:
    """Starts a server that closes connections, or says nothing for seconds, before it answers."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        # Afterwards connections are refused.
        with server:
            for count in range(closed + 1):
                stream, _ = server.accept()
                with stream:
                    time.sleep(silent)
                    if count == closed:
                        stream.recv(4096)
                        stream.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_passing_problems_are_tried_again_and_told(caplog: pytest.LogCaptureFixture) -> None:
    # Five attempts last three seconds.
    with Client(closing(4), TOKEN) as client:
        assert client.jobs() == []
    told = [record for record in caplog.records if "trying again for up to" in record.getMessage()]
    assert len(told) == 1 and "use https" in told[0].getMessage(), caplog.text
    assert (told[0].name, told[0].levelno) == ("sudare.client", logging.WARNING)
    caplog.clear()
    # A short failure is not worth a line.
    with Client(closing(1), TOKEN) as client:
        assert client.jobs() == []
    assert "trying again" not in caplog.text
    with Client(closing(0, silent=2.5), TOKEN) as client:
        assert client.jobs() == []
    assert "has not responded yet" in caplog.text
    caplog.clear()


def test_restarts_do_not_end_a_client() -> None:
    url = closing(0)
    with Client(url, TOKEN) as client:
        assert client.jobs() == []
        port = int(url.rpartition(":")[2])

        def restart() -> None:
            time.sleep(0.7)
            server = socket.create_server(("127.0.0.1", port))
            stream, _ = server.accept()
            stream.recv(4096)
            stream.sendall(EMPTY)

        threading.Thread(target=restart, daemon=True).start()
        assert client.jobs() == []
