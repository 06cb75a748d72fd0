"""A proxy of TCP connections on this machine. When it is cut, open connections are reset and new ones refused."""

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self


class TcpProxy:
    """Forward connections to `address` to another address, unless it is cut. A context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._port = 0
        self.passed = 0
        #: How many answers are dropped, and their connections reset.
        self.lost_answers = 0
        #: Seconds that each piece of a request waits, as on a long way.
        self.delay = 0.0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cut()

    def mend(self) -> None:
        """Listen, at the same port as before."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(128)
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """Reset every connection, and refuse new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
            if listener is not None:
                with suppress(OSError):
                    # Wakes the thread that waits in it, which would keep the port open.
                    listener.shutdown(socket.SHUT_RDWR)
                listener.close()
            for connection in self._open:
                with suppress(OSError):
                    # Closed without waiting: the other side gets a reset.
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.shutdown(socket.SHUT_RD)
                    connection.close()
            self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            with self._lock:
                if self._listener is not listener:
                    near.close()
                    far.close()
                    return
                self._open |= {near, far}
            self.passed += 1
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, sink, sink is near), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if answers and self.lost_answers:
                    self.lost_answers -= 1
                    break
                if self.delay and not answers:
                    time.sleep(self.delay)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR if answers else socket.SHUT_WR)
        with self._lock:
            self._open -= {source}
        with suppress(OSError):
            source.close()
