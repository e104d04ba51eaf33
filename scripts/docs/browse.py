"""Looks at every page of the built site in Chromium:  python scripts/docs/browse.py SITE [FOLDER].

Opens the pages as files, light and dark, wide and narrow; says which are wider than their window,
miss a picture, print an error or fetch something, and whether the search finds a word. Pictures of
all pages go to FOLDER. Exit code 1 if anything is wrong. Needs Chromium or Chrome (`--browser`).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WIDTHS = {"wide": 1440, "narrow": 390}
SCHEMES = ("light", "dark")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: What is wrong with a page, as text; empty where nothing is. Code and tables may scroll inside.
CHECK = """(() => {
  const wrong = [], width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1)
    wrong.push(`is ${document.documentElement.scrollWidth} wide in a window of ${width}`);
  for (const image of document.images)
    if (!image.naturalWidth) wrong.push(`picture ${image.getAttribute("src")} is broken`);
  for (const row of document.querySelectorAll(".md-content td"))
    if (row.offsetWidth < 24 && row.textContent.trim().length > 3)
      wrong.push(`a cell is ${row.offsetWidth} wide: ${row.textContent.trim().slice(0, 20)}`);
  return wrong;
})()"""
SEARCH = """(() => {
  const opened = document.querySelector("#__search");
  opened.checked = true;
  opened.dispatchEvent(new Event("change", {bubbles: true}));
  document.querySelector("input.md-search__input").focus();
})()"""
FOUND = (
    """[...document.querySelectorAll(".md-search-result__link")].map(a => a.getAttribute("href"))"""
)


class Tab:
    """A tab of the browser, told what to do through its WebSocket.

    Args:
        address: of the tab's debugger.
    """

    def __init__(self, address: str):
        host, path = address.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self._socket = socket.create_connection((name, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._buffer = b""
        while b"\r\n\r\n" not in self._buffer:
            self._buffer += self._socket.recv(65536)
        self._buffer = self._buffer.partition(b"\r\n\r\n")[2]
        self._number = 0
        self.events: list[dict] = []

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            more = self._socket.recv(1 << 20)
            if not more:
                raise ConnectionError("the browser has ended")
            self._buffer += more
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _receive(self) -> dict:
        text = b""
        while True:
            first, second = self._read(2)
            size = second & 127
            if size == 126:
                (size,) = struct.unpack(">H", self._read(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self._read(8))
            text += self._read(size)
            if first & 128:
                return json.loads(text)

    def ask(self, method: str, **parameters) -> dict:
        """One command of the DevTools protocol, and its result; events are kept."""
        self._number += 1
        text = json.dumps({"id": self._number, "method": method, "params": parameters}).encode()
        mask = os.urandom(4)
        size = len(text)
        head = struct.pack(">BBQ", 0x81, 0x80 | 127, size) + mask
        self._socket.sendall(head + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, script: str):
        """Value of a JavaScript expression."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    def open(self, address: str) -> None:
        """Open a page and wait until it is there."""
        self.events.clear()
        self.ask("Page.navigate", url=address)
        end = time.monotonic() + 60  # pages take a tenth of a second, a busy machine longer
        while time.monotonic() < end:
            if (
                self.run("document.readyState") == "complete"
                and self.run("location.href") != "about:blank"
            ):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{address} does not load")


@contextmanager
def browser(program: str) -> Iterator[Tab]:
    """A headless browser with one tab."""
    with tempfile.TemporaryDirectory(prefix="mlpot-browse-") as profile:
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--disable-dev-shm-usage"]  # containers have little
        command += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stderr is not None
            port = None
            for line in process.stderr:
                if match := re.search(r"ws://127\.0\.0\.1:(\d+)/", line):
                    port = match[1]
                    break
            if port is None:
                raise RuntimeError(f"{program} did not start")
            import urllib.request

            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                (page,) = [one for one in json.load(answer) if one["type"] == "page"]
            tab = Tab(page["webSocketDebuggerUrl"])
            for domain in ("Page", "Runtime", "Network", "Log"):
                tab.ask(f"{domain}.enable")
            # The choice of a reader would be kept from page to page.
            tab.ask("Page.addScriptToEvaluateOnNewDocument", source="localStorage.clear()")
            yield tab
        finally:
            process.terminate()
            process.wait(timeout=30)


def problems(tab: Tab, page: Path, width: int, scheme: str) -> list[str]:
    """What is wrong with a page, which is left open."""
    tab.ask(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    tab.ask(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    tab.open(page.as_uri())
    found = list(tab.run(CHECK))
    shown = tab.run("document.body.getAttribute('data-md-color-scheme')")
    if shown != {"light": "default", "dark": "slate"}[scheme]:
        found.append(f"is {shown} where {scheme} is wanted")
    for event in tab.events:
        if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            found.append(event["params"]["entry"]["text"])
        if event["method"] == "Runtime.exceptionThrown":
            found.append(event["params"]["exceptionDetails"]["text"])
        if event["method"] == "Network.requestWillBeSent":
            address = event["params"]["request"]["url"]
            if not address.startswith(("file:", "data:", "blob:", "about:")):
                found.append(f"fetches {address}")
    return found


def picture(tab: Tab, path: Path) -> None:
    """The whole page as a picture."""
    size = tab.ask("Page.getLayoutMetrics")["cssContentSize"]
    clip = {
        "x": 0,
        "y": 0,
        "width": size["width"],
        "height": min(size["height"], 12000),
        "scale": 1,
    }
    shot = tab.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(shot["data"]))


def search(tab: Tab, site: Path, word: str) -> list[str]:
    """Where the search of the site, typed into its box, finds a word."""
    tab.ask("Emulation.clearDeviceMetricsOverride")
    tab.open((site / "index.html").as_uri())
    tab.run(SEARCH)
    tab.ask("Input.insertText", text=word[:-1])
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key=word[-1], text=word[-1])
    for _ in range(200):
        if found := tab.run(FOUND):
            return found
        time.sleep(0.05)
    return []


def main(arguments: list[str] | None = None) -> int:
    """Look at all pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", help="for pictures of all pages")
    parser.add_argument("--browser", default=next(filter(shutil.which, BROWSERS), BROWSERS[0]))
    parser.add_argument("--only", default="", help="pages whose path contains this")
    options = parser.parse_args(arguments)
    site = options.site.resolve()
    if not (site / "index.html").is_file():
        parser.error(f"{options.site} is no built site: mkdocs build --site-dir {options.site}")
    if shutil.which(options.browser) is None:
        parser.error(f"there is no {options.browser}: install Chromium, or name it by --browser")
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    count = 0
    with browser(options.browser) as tab:
        for page in (one for one in pages if options.only in str(one.relative_to(site))):
            name = page.relative_to(site).as_posix()
            for size, width in WIDTHS.items():
                for scheme in SCHEMES:
                    for problem in problems(tab, page, width, scheme):
                        count += 1
                        print(f"{name} ({size}, {scheme}): {problem}")
                    if options.folder is not None:
                        folder = options.folder / f"{size}-{scheme}"
                        folder.mkdir(parents=True, exist_ok=True)
                        picture(tab, folder / f"{name.replace('/', '_').removesuffix('.html')}.png")
        found = search(tab, site, "neighbour")
    print(f"{len(pages)} pages; the search finds {len(found)} places")
    return 1 if count or not found else 0


if __name__ == "__main__":
    sys.exit(main())
