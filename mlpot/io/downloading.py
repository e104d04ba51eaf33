"""One file over HTTP: progress, resumption, and a bound on its size."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

#: Called with (bytes done, bytes wanted).
Progress = Callable[[int, int], None]

_BLOCK = 2**16
_SECONDS = 60.0


def download(address: str, part: Path, size: int, progress: Progress | None = None) -> None:
    """Download a file of known size; what an earlier attempt left is gone on with.

    Args:
        address: http or https.
        part: where to write; kept when the connection breaks.
        size: bytes of the whole file.
        progress: told how far it is.

    Raises:
        OSError: no connection, an answer that is not the file, or one that ends too early (then
            ``part`` holds what came).
        ValueError: the address is not http or https.
    """
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{address!r} is no address of http or https")
    done = part.stat().st_size if part.is_file() else 0
    if done > size:
        done = 0
    if done < size:
        done = _transfer(address, part, done, size, progress)
    if done != size:
        raise OSError(
            f"the connection ended after {done} of {size} bytes; run the command again, it goes on "
            "from there"
        )


def _transfer(address: str, part: Path, done: int, size: int, progress: Progress | None) -> int:
    request = urllib.request.Request(address, headers={"User-Agent": "mlpot"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            if done and answer.status != 206:
                done = 0  # the server sends the whole file
            _check_length(answer, done, size)
            with part.open("ab" if done else "wb") as file:
                while block := answer.read(_BLOCK):
                    if done + len(block) > size:
                        raise OSError(f"the file there is larger than {size} bytes: another one")
                    file.write(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, size)
    except http.client.IncompleteRead:
        pass  # told by the number of bytes
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:
            return _transfer(address, part, 0, size, progress)
        raise OSError(f"{address} answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise OSError(f"{address} cannot be reached ({error.reason})") from error
    except (TimeoutError, http.client.HTTPException) as error:
        raise OSError(f"{address}: {error or type(error).__name__}") from error
    return done


def _check_length(answer: http.client.HTTPResponse, done: int, size: int) -> None:
    length = answer.headers.get("Content-Length")
    if length is not None and length.isdigit() and done + int(length) != size:
        raise OSError(
            f"the file there has {done + int(length)} bytes instead of {size}: another one"
        )
