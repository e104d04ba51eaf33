"""Files of the benchmark's report."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET

import pytest
from benchmark.drawing import LABELS, WIDTH, bars
from benchmark.environment import busy
from benchmark.refusals import refusals
from benchmark.report import backends, write
from benchmark.timing import rank


@pytest.fixture
def report():
    common = {"case": "linear", "label": "n<=4 & more", "phase": "forward", "device": "cpu"}
    common |= {"threads": 2, "mode": "eager", "status": "ok", "calls": 1, "error": 1e-7}
    path = {"primitive": "gather", "backend": "native", "refusals": []}
    rows = {
        "e3nn": common | {"implementation": "e3nn", "seconds": [0.4, 0.2, 0.4], "paths": []},
        "mlpot-kernels": common
        | {"implementation": "mlpot-kernels", "seconds": [0.1, 0.05, 0.1], "paths": [path]},
    }
    rank(rows)
    absent = common | {"implementation": "mace", "status": "not installed: No module 'mace'"}
    ratio = {"median": 1.0, "low": 0.98, "high": 1.02}
    entry = {"case": "linear", "label": "n<=4", "phase": "forward", "ratio": ratio, "backends": []}
    return {
        "environment": {
            "command": "python evals/run.py",
            "cpu": "some <cpu>",
            "gpu": "",
            "load": [0.3, 0.2, 0.1],
            "cores": 2,
        },
        "versions": {"mlx": "0.32.4"},
        "control": [entry | {"same_bits": True, "same_time": True}],
        "rows": [*rows.values(), absent],
        "memory": [],
    }


def test_csv_has_every_row_with_paired_speedups(report, tmp_path):
    write(tmp_path / "new" / "folder", report)
    with (tmp_path / "new" / "folder" / "rows.csv").open() as file:
        rows = {row["implementation"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"e3nn", "mlpot-kernels", "mace"}
    assert float(rows["mlpot-kernels"]["median_ms"]) == 100.0
    assert float(rows["mlpot-kernels"]["speedup"]) == 4.0
    assert rows["mlpot-kernels"]["backends"] == "native: gather"
    assert rows["mace"]["median_ms"] == ""
    assert rows["mace"]["status"].startswith("not installed")


def test_json_is_the_whole_report(report, tmp_path):
    write(tmp_path, report)
    assert json.loads((tmp_path / "report.json").read_text()) == report


def test_pictures_and_page_are_well_formed_and_need_nothing_else(report, tmp_path):
    write(tmp_path, report)
    for name in ("speedup", "latency"):
        root = ET.parse(tmp_path / f"{name}.svg").getroot()
        texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
        assert "linear n<=4 & more, forward" in texts
        assert "mlpot-kernels" in texts
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "src=" not in page and "<link" not in page
    assert "some &lt;cpu&gt;" in page and "coincides" in page
    assert "not installed: No module" in page


def test_a_report_without_rows_can_be_written(report, tmp_path):
    write(tmp_path, report | {"rows": [], "control": []})
    assert "nothing was timed" in (tmp_path / "latency.svg").read_text()


def test_backends_are_told_by_primitive(report):
    row = report["rows"][1]
    row["paths"] += [{"primitive": "exp", "backend": "reference", "refusals": [["native", "no"]]}]
    assert backends(row) == "native: gather; reference: exp"


def test_refusals_of_kernels_are_listed(report, tmp_path):
    assert refusals(report["rows"]) == {}
    refused = {"primitive": "exp", "backend": "reference", "refusals": [["native", "no compiler"]]}
    report["rows"][0]["paths"] = [refused]  # e3nn's: not ours to tell
    assert refusals(report["rows"]) == {}
    report["rows"][1]["paths"] = [refused, refused | {"primitive": "sin"}]
    assert refusals(report["rows"]) == {"native (no compiler)": {"exp", "sin"}}
    write(tmp_path, report)
    assert "native (no compiler)" in (tmp_path / "report.html").read_text()


def test_what_is_slower_is_drawn_to_the_other_side():
    spread = {"median": 0.5, "low": 0.4, "high": 0.6}
    slow = ET.fromstring(bars("t", "x", [("a", [("e3nn", spread)])], origin=1.0))
    fast = {name: 1 / value for name, value in spread.items()}
    quick = ET.fromstring(bars("t", "x", [("a", [("e3nn", fast)])], origin=1.0))

    def ends(root):
        boxes = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if len(e)]
        (box,) = boxes
        return float(box.get("x")), float(box.get("x")) + float(box.get("width"))

    assert ends(slow)[1] == pytest.approx(LABELS + WIDTH)  # axis from 0.1 to 1
    assert ends(quick)[0] == pytest.approx(LABELS)  # axis from 1 to 10
    assert ends(slow)[1] - ends(slow)[0] == pytest.approx(ends(quick)[1] - ends(quick)[0], abs=0.2)


def test_a_busy_machine_is_told(report, tmp_path):
    assert busy(report["environment"]) == ""
    write(tmp_path, report)
    assert "Warning" not in (tmp_path / "report.html").read_text()
    report["environment"]["load"] = [7.5, 6.0, 5.0]
    assert "load 7.5 on 2 cores" in busy(report["environment"])
    write(tmp_path, report)
    assert "Warning: the machine was busy" in (tmp_path / "report.html").read_text()
