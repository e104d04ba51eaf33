"""`mlpot doctor`: what it finds, and what it advises."""

from __future__ import annotations

import importlib.util

import mlx.core as mx
import pytest
import typer

from mlpot.cli import doctor


def by_topic(findings: list[doctor.Finding]) -> dict[str, doctor.Finding]:
    return {finding.topic: finding for finding in findings}


def test_report_of_this_machine(capsys):
    doctor.doctor()
    out = capsys.readouterr().out
    for topic in ("mlpot", "Python", "MLX", "device", "TF32", "BLAS", "kernels", "packages"):
        assert topic in out
    assert "cannot be imported" not in out


def test_speed_is_measured():
    assert 0.01 < doctor.measure_gflops(size=128, seconds=0.05) < 1e5


def test_two_backends_are_refused(monkeypatch):
    monkeypatch.setattr(doctor, "version_of", lambda name: "0.32.4" if "mlx-c" in name else None)
    finding = by_topic(doctor.find_backend())["MLX"]
    assert "overwrite" in finding.advice
    assert not finding.fatal


def test_missing_backend_is_fatal(monkeypatch, capsys):
    fatal = doctor.Finding("MLX", "cannot be imported", 'pip install "mlpot[cpu]"', True)
    monkeypatch.setattr(doctor, "find_backend", lambda: [fatal])
    with pytest.raises(typer.Exit) as caught:
        doctor.doctor()
    assert caught.value.exit_code == 1
    assert 'pip install "mlpot[cpu]"' in capsys.readouterr().out


@pytest.mark.parametrize(("value", "warned"), [("0", False), ("1", True)])
def test_tf32(monkeypatch, value, warned):
    monkeypatch.setenv("MLX_ENABLE_TF32", value)
    [finding] = doctor.find_tf32()
    assert bool(finding.advice) == warned


def test_slow_blas_is_told(monkeypatch):
    from mlpot import _blas

    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(_blas, "status", lambda: _blas.BlasStatus(False, reason="no OpenBLAS"))
    [finding] = doctor.find_blas()
    assert "netlib" in finding.value
    assert "no OpenBLAS" in finding.advice


def test_compiler_of_cuda_kernels(monkeypatch, tmp_path):
    from mlpot.kernels.gpu import nvrtc

    assert doctor.find_cuda_kernels() == [] or mx.cuda.is_available()
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setenv("MLPOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "k.sm_90a").write_text("")
    [finding] = doctor.find_cuda_kernels()
    assert "NVRTC 13.0; 1 compiled" in finding.value and not finding.advice

    def missing():
        raise nvrtc.CannotCompileError("no library libnvrtc.so is found")

    monkeypatch.setattr(nvrtc, "version", missing)
    [finding] = doctor.find_cuda_kernels()
    assert "compiled by MLX" in finding.value and "libnvrtc.so" in finding.advice
    monkeypatch.setenv("MLPOT_NVRTC", "0")
    [finding] = doctor.find_cuda_kernels()
    assert finding.advice == "switched off by MLPOT_NVRTC=0"


def test_missing_packages_come_with_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    finding = by_topic(doctor.find_packages())["phonons"]
    assert finding.value == "missing: phonopy, spglib, seekpath"
    assert finding.advice == 'pip install "mlpot[phonons]"'


def test_compiler_is_needed_on_linux_only(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    [finding] = doctor.find_compiler()
    assert "g++" in finding.advice
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert doctor.find_compiler() == []


class Kernels:
    """Stands in for mlpot.kernels.native."""

    def __init__(self, monkeypatch, state: str, reason: str = "", off: str = "") -> None:
        self.built = 0
        for name, value in {
            "cache_state": lambda: state,
            "switched_off": lambda: off,
            "available": lambda: not (reason or off),
            "why_not": lambda: off or reason,
            "num_threads": lambda: 7,
            "build": self.build,
        }.items():
            monkeypatch.setattr(f"mlpot.kernels.native.{name}", value)

    def build(self) -> bool:
        self.built += 1
        return True


def test_kernels_are_compiled_only_on_request(monkeypatch):
    kernels = Kernels(monkeypatch, "absent")
    [finding] = doctor.find_kernels()
    assert "not compiled yet" in finding.value and "--build" in finding.advice
    assert kernels.built == 0
    kernels = Kernels(monkeypatch, "built")
    [finding] = doctor.find_kernels(build=True)
    assert finding.value == "native, 7 threads" and not finding.advice
    assert kernels.built == 1


def test_kernels_that_do_not_run_come_with_the_reason(monkeypatch):
    Kernels(monkeypatch, "failed", reason="no C++ compiler is found")
    [finding] = doctor.find_kernels()
    assert "plain MLX" in finding.value
    assert finding.advice.startswith("no C++ compiler is found") and "--build" in finding.advice
    Kernels(monkeypatch, "absent", off="switched off by MLPOT_NATIVE=0")
    [finding] = doctor.find_kernels()
    assert finding.advice == "switched off by MLPOT_NATIVE=0"


@pytest.mark.parametrize("state", ["absent", "failed"])
def test_kernels_that_cannot_be_compiled_now_are_an_error(state, monkeypatch):
    Kernels(monkeypatch, state, reason="the cache folder cannot be used")
    [finding] = doctor.find_kernels(build=True)
    assert finding.fatal and finding.advice.startswith("the cache folder cannot be used")
    with pytest.raises(typer.Exit) as caught:
        doctor.doctor(build=True)
    assert caught.value.exit_code == 1
    doctor.doctor()


@pytest.mark.parametrize(
    ("asked", "lines", "fatal"), [("", 0, []), ("reference", 1, [False]), ("fast", 1, [True])]
)
def test_the_choice_of_the_environment_is_told(asked, lines, fatal, monkeypatch):
    monkeypatch.setenv("MLPOT_KERNELS", asked)
    findings = doctor.find_choice()
    assert len(findings) == lines and [f.fatal for f in findings] == fatal
    assert all(f.value == f"MLPOT_KERNELS={asked}" for f in findings)


def test_device_names_a_gpu(monkeypatch):
    class Device:
        type = mx.DeviceType.gpu

        def __str__(self) -> str:
            return "Device(gpu, 0)"

    monkeypatch.setattr(mx, "default_device", Device)
    monkeypatch.setattr(mx, "device_info", lambda: {"device_name": "X1", "memory_size": 2**34})
    assert "X1, 16 GiB" in doctor._describe_device(mx)
