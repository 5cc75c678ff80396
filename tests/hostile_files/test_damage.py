# SPDX-License-Identifier: Apache-2.0
"""R14: checkpoints that other people's software wrote, each damaged in 200 ways.

Nothing crashes, hangs, or takes much memory; what verifies can be read. Where a format has checksums
of all bytes, nothing that is changed is read as if it were whole; SILENT says where it has none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cases_dcp
import cases_gguf
import cases_huggingface
import cases_safetensors
from case import Scene

SOURCE = Path(__file__).resolve().parents[2]
DAMAGE = os.environ["PAWL_DAMAGE"]
CASES = int(os.environ.get("PAWL_DAMAGE_CASES", "200"))
SEED = int(os.environ.get("PAWL_DAMAGE_SEED", "1"))
SANITIZED = bool(os.environ.get("PAWL_SANITIZED"))
OUTSIDE = Path(os.environ.get("PAWL_SAMPLES_DIR", SOURCE.parent / "shared/samples"))
OWN = SOURCE / "tests/unit/foreign/samples"
MOST_S = 20.0 if SANITIZED else 2.0
MOST_MIB = 64  # more than the whole sample takes
LEAST_SAMPLES = 60

#: Format: files of which bytes have no checksum, and why. Of other formats no change is silent.
SILENT = {
    "HDF5": (r".*", "HDF5 of version 0 has none; of version 2 values have none"),
    "npy": (r".*", "npy files have none"),
    "safetensors": (r".*", "safetensors files have none"),
    "PyTorch, legacy": (r".*", "before zips there were none"),
    "PyTorch, legacy tar": (r".*", "before zips there were none"),
    "GGUF": (r".*", "GGUF has none"),
    "PyTorch DCP": (r".*\.metadata", "a pickle has none"),
    "safetensors, sharded": (r".*", "safetensors files have none"),
    "Orbax": (r"(?!.*manifest\.).*", "chunks have none by default, nor have files of JSON; nodes are "
                                     "in files with chunks"),
}
#: Of those formats: the share of damages that is found all the same, at the least.
FOUND = {"HDF5": 0.8, "npy": 0.4, "safetensors": 0.3, "safetensors, sharded": 0.3, "GGUF": 0.3,
         "PyTorch, legacy": 0.7, "PyTorch, legacy tar": 0.7, "PyTorch DCP": 0.8, "Orbax": 0.4}


@dataclass
class Sample:
    """A checkpoint: its path in `root`, and the files that are damaged."""

    root: Path
    path: str
    files: list[str]
    format: str = ""
    found: int = 0
    harmless: int = 0
    silent: dict[str, int] = field(default_factory=dict)
    seconds: float = 0
    mib: float = 0
    slowest: str = ""
    failure: str = ""


def regular(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*")
                  if path.is_file() and not path.is_symlink())


def samples_in(directory: Path) -> list[Sample]:
    """Indexes with their data; directories of Orbax; else files, one by one."""
    out = []
    for index in sorted(directory.glob("*.index")):
        files = [path.name for path in sorted(directory.glob(f"{index.stem}.*"))
                 if path == index or ".data-" in path.name]
        out.append(Sample(directory, index.name, files))
    names = {path.name for path in directory.iterdir()}
    if names & {"manifest.ocdbt", "_METADATA", "_CHECKPOINT_METADATA", ".zgroup", ".zarray"}:
        return [Sample(directory.parent, directory.name,
                       [f"{directory.name}/{name}" for name in regular(directory)])]
    for path in sorted(directory.iterdir()):
        if path.is_dir():
            out += samples_in(path)
        elif path.suffix in {".pt", ".pth", ".tar", ".safetensors", ".npy", ".npz", ".h5",
                             ".keras"}:
            out.append(Sample(directory, path.name, [path.name]))
    return out


def made_samples(directory: Path) -> list[Sample]:
    """Of formats of which nobody else's are there."""
    scene = Scene(directory)
    cases_dcp.put(scene, cases_dcp.whole(cases_dcp.DATA))
    cases_gguf.put(scene, [cases_gguf.value("k", cases_gguf.TEXT, cases_gguf.text("v"))],
                   [cases_gguf.tensor("w", [16])])
    cases_safetensors.sharded(scene, "a.safetensors")
    torch = cases_huggingface.sharded(scene)
    return [Sample(directory, "step", ["step/.metadata", f"step/{cases_dcp.DATA}"]),
            Sample(directory, "model.gguf", ["model.gguf"]),
            Sample(directory, "model.safetensors.index.json",
                   ["model.safetensors.index.json", "a.safetensors"]),
            Sample(directory, torch.name,
                   [torch.name, cases_huggingface.ONE, cases_huggingface.TWO])]


def run(sample: Sample, seed: int) -> Sample:
    with tempfile.TemporaryDirectory(prefix="pawl-r14-", dir=scratch()) as place:
        for name in sample.files:
            (Path(place) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sample.root / name, Path(place) / name)
        done = subprocess.run([DAMAGE, str(CASES), str(seed), sample.path, *sample.files],
                              cwd=place, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        sample.failure = f"exit {done.returncode}: {done.stderr[:2000]}"
    elif lines[0] != "no checkpoint":
        read_figures(sample, lines)
    return sample


def read_figures(sample: Sample, lines: list[str]) -> None:
    sample.format = lines[0]
    for line in lines[1:-1]:
        found, harmless, silent, name = line.split(" ", 3)
        sample.found += int(found)
        sample.harmless += int(harmless)
        if int(silent):
            sample.silent[name] = int(silent)
    seconds, kib, sample.slowest = lines[-1].split(" ", 2)
    sample.seconds, sample.mib = float(seconds), int(kib) / 1024


def scratch() -> str | None:
    memory = "/dev/shm"
    return memory if os.access(memory, os.W_OK) else None


class Damage(unittest.TestCase):
    samples: list[Sample] = []

    @classmethod
    def setUpClass(cls) -> None:
        roots = [OWN] + ([OUTSIDE] if OUTSIDE.is_dir() else [])
        found = [sample for root in roots for sample in samples_in(root)]
        with tempfile.TemporaryDirectory(prefix="pawl-r14-") as place, \
                ThreadPoolExecutor(os.cpu_count()) as pool:
            found += made_samples(Path(place))
            cls.samples = list(pool.map(run, found, range(SEED, SEED + len(found))))

    @classmethod
    def tearDownClass(cls) -> None:
        for name in sorted({sample.format for sample in cls.opened()}):
            of = [sample for sample in cls.opened() if sample.format == name]
            found, harmless = sum(s.found for s in of), sum(s.harmless for s in of)
            silent = sum(sum(s.silent.values()) for s in of)
            print(f"{name}: {len(of)} samples, {found} found, {harmless} harmless, {silent} silent; "
                  f"at most {max(s.seconds for s in of):.3f} s, {max(s.mib for s in of):.1f} MiB")

    @classmethod
    def opened(cls) -> list[Sample]:
        return [sample for sample in cls.samples if sample.format]

    def test_r14_each_damage_is_judged_without_a_crash(self) -> None:
        for sample in self.samples:
            with self.subTest(sample=sample.path, root=sample.root.name):
                self.assertEqual(sample.failure, "")
                self.assertLess(sample.seconds, MOST_S, sample.slowest)
                if not SANITIZED:
                    self.assertLess(sample.mib, MOST_MIB)

    def test_r14_what_is_changed_silently_has_no_checksum(self) -> None:
        for sample in self.opened():
            with self.subTest(sample=sample.path, root=sample.root.name, format=sample.format):
                where, _ = SILENT.get(sample.format, ("", ""))
                covered = {name: n for name, n in sample.silent.items()
                           if not re.fullmatch(where, name)}
                self.assertEqual(covered, {})

    def test_r14_formats_without_checksums_find_their_share(self) -> None:
        for name, least in FOUND.items():
            of = [sample for sample in self.opened() if sample.format == name]
            found = sum(sample.found for sample in of)
            silent = sum(sum(sample.silent.values()) for sample in of)
            with self.subTest(format=name, found=found, silent=silent):
                self.assertGreaterEqual(found, least * (found + silent))

    @unittest.skipUnless(OUTSIDE.is_dir(), f"there are no samples at {OUTSIDE}")
    def test_r14_there_are_samples_of_each_format(self) -> None:
        self.assertGreater(len(self.opened()), LEAST_SAMPLES)


if __name__ == "__main__":
    unittest.main()
