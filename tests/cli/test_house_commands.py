"""doctor, cache, help and version; and the command as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from flashgen import __version__
from flashgen.cli.main import main
from flashgen.errors import LaunchError
from flashgen.runtime.device import host_target
from flashgen.target import parse_target

COMMANDS = sorted(main.commands)


def test_doctor_finds_this_machine_ready(flashgen):
    result = flashgen("doctor")
    assert result.exit_code == 0, result.output
    assert "Ready" in result.stdout
    findings = json.loads(flashgen("doctor", "--json").stdout)
    assert findings["usable"] is True
    assert {"CPU", "C++ compiler", "libgomp", "cache"} <= {finding["what"] for finding in findings["findings"]}


def test_doctor_names_the_level_that_kernels_use(flashgen, monkeypatch):
    def cpu() -> str:
        findings = json.loads(flashgen("doctor", "--json").stdout)["findings"]
        return next(finding["detail"] for finding in findings if finding["what"] == "CPU")

    assert str(host_target()) in cpu()
    monkeypatch.setattr("flashgen.doctor.host_target", lambda: parse_target("cpu:x86-64-v3"))
    assert "cpu:x86-64-v3 (256-bit vectors)" in cpu()


def test_doctor_without_a_compiler_says_how_to_get_one(flashgen, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    result = flashgen("doctor")
    assert result.exit_code == 4
    assert "apt-get install g++" in result.stdout
    assert "Not ready" in result.stdout


def test_doctor_names_the_missing_extra(flashgen, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'flashgen[torch]'" in flashgen("doctor").stdout


def test_what_doctor_says_without_a_gpu_can_be_typed(flashgen, monkeypatch):
    def missing():
        raise LaunchError("This machine has no NVIDIA driver.")

    monkeypatch.setattr("flashgen.doctor.open_driver", missing)
    findings = json.loads(flashgen("doctor", "--json").stdout)["findings"]
    fix = next(finding["fix"] for finding in findings if finding["what"] == "NVIDIA GPU")
    name, *options = fix.partition("flashgen ")[2].split()
    command = main.get_command(click.Context(main), name)
    assert command.make_context(name, options).params["d"] == 64


def test_cache_info_and_clear_count_the_kernels(flashgen, tmp_path, monkeypatch):
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(tmp_path / "cache"))
    assert json.loads(flashgen("cache", "info", "--json").stdout)["artifacts"] == 0
    flashgen("show", "--d", 8, "--log")
    info = json.loads(flashgen("cache", "info", "--json").stdout)
    assert info["artifacts"] == 1
    assert info["bytes"] > 1000
    assert "1 compiled kernels" in flashgen("cache", "info").stdout
    assert json.loads(flashgen("cache", "clear", "--json").stdout)["artifacts"] == 1
    assert "0 compiled kernels" in flashgen("cache", "info").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(flashgen, command):
    result = flashgen(command, "--help")
    assert result.exit_code == 0
    assert "Example:" in result.stdout
    assert f"flashgen {command}" in result.stdout
    made = main.commands[command]
    names = made.commands.values() if isinstance(made, click.Group) else [made]
    assert all("--json" in parameter.opts for name in names for parameter in name.params if parameter.name == "as_json")
    assert all(any(parameter.name == "as_json" for parameter in name.params) for name in names)


def test_version(flashgen):
    assert flashgen("--version").stdout == f"flashgen, version {__version__}\n"


def test_the_module_runs_as_the_command_and_debug_shows_all(tmp_path):
    command = [sys.executable, "-m", "flashgen", "plan", "--d", "64", "--sram", "nonsense"]
    quiet = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert quiet.returncode == 2
    assert quiet.stderr.startswith("Error: 'nonsense' is not a size.")
    assert len(quiet.stderr.splitlines()) == 1
    loud = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"FLASHGEN_LOG": "debug"})
    assert "Traceback" in loud.stderr


def test_output_cut_off_by_head_is_no_error(tmp_path):
    line = f"{sys.executable!r} -m flashgen show --d 64 | head -n 1".replace("'", '"')
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert "Traceback" not in done.stderr
