"""Looking at the pages in a browser: what the script says where it cannot."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "docs" / "browse.py"


def test_a_missing_site_and_a_missing_browser(tmp_path, capsys):
    main = runpy.run_path(str(SCRIPT))["main"]
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "site")])
    assert caught.value.code == 2 and "is no built site: mkdocs build" in capsys.readouterr().err
    (tmp_path / "index.html").write_text("<html></html>")
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path), "--browser", "no-such-browser"])
    assert caught.value.code == 2
    assert "there is no no-such-browser: install Chromium" in capsys.readouterr().err
