"""Child processes in prepared surroundings: their own cache, compilers, mounts and users."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flashgen.compilation.toolchains.host import find_compiler
from flashgen.errors import ToolchainError

HERE = Path(__file__).resolve().parent
# The surroundings are the subject here, so none of them are inherited from whoever runs the tests.
OURS = ("FLASHGEN_", "CXX", "OMP_", "GOMP_", "XDG_", "PYTHONHASHSEED", "PYTHONWARNINGS", "TMPDIR")
TIMEOUT = 60  # seconds: a child that takes longer hangs

Environment = Mapping[str, str | os.PathLike[str] | None]


@dataclass(frozen=True)
class Children:
    """Starts child processes.

    Attributes:
        cache: FLASHGEN_CACHE_DIR of the children.
        warnings: what Python warnings are in them.
        started: those that were not waited for.
    """

    cache: Path
    warnings: str = "error"
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def environ(self, changes: Environment | None = None) -> dict[str, str]:
        """The environment of a child; None as a value takes a variable away."""
        env: dict[str, Any] = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), env.get("PYTHONPATH")]))
        env |= {"FLASHGEN_CACHE_DIR": self.cache, "OMP_NUM_THREADS": "2"} | dict(changes or {})
        return {name: str(value) for name, value in env.items() if value is not None}

    def python(
        self, code: str, *arguments: str, env: Environment | None = None, wrapper: Sequence[str] = (), **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python code to its end, and fails the test if that does not come."""
        command = [*wrapper, sys.executable, "-W", self.warnings, "-c", code, *arguments]
        return subprocess.run(command, env=self.environ(env), timeout=TIMEOUT, **_PIPES | options)

    def flashgen(
        self, *arguments: str, env: Environment | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command line."""
        command = [sys.executable, "-m", "flashgen", *arguments]
        return subprocess.run(command, env=self.environ(env), timeout=TIMEOUT, **_PIPES | options)

    def start(self, code: str, *arguments: str, env: Environment | None = None) -> subprocess.Popen[str]:
        """Starts Python code, and does not wait for it."""
        command = [sys.executable, "-W", self.warnings, "-c", code, *arguments]
        self.started.append(subprocess.Popen(command, env=self.environ(env), start_new_session=True, **_PIPES))
        return self.started[-1]

    def end(self) -> None:
        """Ends what a failed test left behind, their own children too."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


_PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}


@dataclass(frozen=True)
class GatedCompiler:
    """A compiler that writes each compilation down and, while its gate is closed, waits.

    Attributes:
        command: the wrapper, for CXX.
        log: a line for each compilation that began.
        gate: the file that holds compilations up while it exists.
    """

    command: str
    log: Path
    gate: Path

    @property
    def compilations(self) -> int:
        """How many began."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def close(self) -> None:
        """Holds up the compilations to come."""
        self.gate.touch()

    def open(self) -> None:
        """Lets all of them go on."""
        self.gate.unlink(missing_ok=True)

    def wait_for_compilation(self) -> None:
        """Returns once a compilation has begun."""
        wait_until(lambda: self.compilations > 0, "a compilation")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition, and fails the test if it does not come true."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def succeeds(command: Sequence[str]) -> bool:
    """Whether a command ends well."""
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool], str], None]:
    return wait_until


@pytest.fixture(scope="session", autouse=True)
def host_compiler() -> str:
    """The machine's own compiler; there is nothing to test here without one."""
    try:
        return shlex.join(find_compiler().command)
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def children(cache: Path) -> Iterator[Children]:
    made = Children(cache)
    yield made
    made.end()


@pytest.fixture
def tolerant_children(cache: Path) -> Iterator[Children]:
    """Children in which other libraries may warn: of forks, of old names."""
    made = Children(cache, warnings="default")
    yield made
    made.end()


@pytest.fixture
def gated_compiler(tmp_path: Path, host_compiler: str) -> GatedCompiler:
    log, gate, script = (tmp_path / name for name in ("compilations", "gate", "gated-g++"))
    made = GatedCompiler(str(script), log, gate)
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-v) ;; *)\n'
        f'  echo "$*" >> {shlex.quote(str(log))}\n'
        f"  while [ -e {shlex.quote(str(gate))} ]; do sleep 0.02; done\n"
        f"esac\n"
        f'exec {host_compiler} "$@"\n'
    )
    script.chmod(0o755)
    return made


@pytest.fixture
def mount() -> Callable[..., list[str]]:
    """Prefix of a command that runs it where ``mount ARGUMENTS`` was done, unseen by other processes."""
    shell, probe = ["sh", "-ec"], f"mount -t tmpfs tmpfs /mnt; {shlex.quote(sys.executable)} -c pass"
    namespaces = [["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]]
    usable = [each for each in namespaces if shutil.which("unshare") and succeeds([*each, *shell, probe])]
    if not usable:
        pytest.skip("this user may not mount file systems, not even in a namespace")
    enter = [*usable[0], *shell]

    def prefix(*commands: Sequence[str | os.PathLike[str]]) -> list[str]:
        steps = [shlex.join(["mount", *map(str, arguments)]) for arguments in commands]
        return [*enter, "\n".join([*steps, 'exec "$@"']), "sh"]

    return prefix


@pytest.fixture
def stranger() -> list[str]:
    """Prefix of a command that runs it as a user who is in no passwd file, and owns nothing.

    The user may read everything, because a checkout of root's and its interpreter often cannot be read.
    """
    capability = "-all,+dac_read_search"
    prefix = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
    prefix += [f"--inh-caps={capability}", f"--ambient-caps={capability}"]
    probe = [*prefix, sys.executable, "-c", "import flashgen.api"]
    if os.geteuid() != 0 or not shutil.which("setpriv") or not succeeds(probe):
        pytest.skip("only root, where it may pass on capabilities, can do this")
    return prefix
