# SPDX-License-Identifier: Apache-2.0
"""What the doctor tells a program of a path, a checkpoint, a model and this process."""

import array
import json
import os
import pathlib
import unittest

import support

import pawl


class Doctor(support.InDirectory):
    def save(self, steps=(100,), **entries):
        """Saves a small state; returns it."""
        state = pawl.State({"model/kernel": array.array("f", range(8)), "model/bias": array.array("f", [1, 2])})
        state["optimizer/class"] = "adam"
        for name, value in entries.items():
            state[name] = value
        with pawl.Run(self.run_path) as run:
            for step in steps:
                run.save(state, step=step)
                run.wait()
        return state

    def ask(self, path=None, **how):
        """Without what depends on where these tests run."""
        how.setdefault("probe", False)
        found = pawl.doctor(path or self.run_path, **how)
        kept = [one for one in found if one.id not in ("P07", "P09")]
        return pawl.Findings(kept, found.report, found.versions)

    def ids(self, found):
        return [one.id for one in found.troubles]

    def test_a_place_to_be_is_healthy_and_stays_empty(self):
        found = self.ask(probe=True)
        self.assertTrue(found.healthy, str(found))
        self.assertTrue(found.able_to_save)
        self.assertIn("a probe was written and synced", str(found))
        self.assertEqual(os.listdir(self.directory), [])
        self.assertEqual({one.part for one in found}, {"path", "environment"})

    def test_read_only_writes_nothing(self):
        self.save()
        self.run_path.chmod(0o555)
        before = os.stat(self.run_path).st_mtime_ns
        found = self.ask(read_only=True, probe=True)
        self.assertTrue(found.healthy, str(found))
        self.assertNotIn("probe", str(found))
        self.assertEqual(os.stat(self.run_path).st_mtime_ns, before)

    def test_differences_are_told_in_the_words_of_python(self):
        self.save()
        renamed = {"net/kernel": array.array("f", range(8)), "net/bias": array.array("f", [1, 2])}
        found = self.ask(model={**renamed, "optimizer/class": "adam"})
        told = {one.id: one.next for one in found if one.part == "restore"}
        self.assertEqual(told["R05"], "pass renames={'model': 'net'}")
        self.assertEqual(told["R04"], "pass unexpected='allow' to leave it out")
        self.assertNotIn("PAWL_POLICY", str(found))

    def test_the_graph_of_a_bundle_is_of_no_model(self):
        """TensorFlow keeps in an entry how its objects hang together; a run converted from a bundle has it, too."""
        model = {"w": array.array("f", [1])}
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({**model, "_CHECKPOINTABLE_OBJECT_GRAPH": b"graph"}), step=1)
            run.wait()
        pawl.convert(self.run_path, self.directory / "other", only=["w"])
        told = self.ask(model=model)
        self.assertIn("fits the model: restoring it reads 1 entry, 4 B", str(told))
        (note,) = [one for one in told if one.id == "R04"]
        self.assertEqual((note.severity, note.next.rpartition(", ")[2]), ("note", "pass unexpected='allow'"))
        with pawl.open(self.run_path) as checkpoint:  # as the note says
            with self.assertRaises(pawl.Mismatch):
                checkpoint.restore(pawl.State(model))
            checkpoint.restore(pawl.State(model), unexpected="allow")
        found = pawl.doctor(self.directory / "other", model=self.run_path, probe=False)
        self.assertIn("fits the model: restoring it reads 1 entry, 4 B", str(found))
        self.assertNotIn("R04", str(found))

    def test_one_is_counted_as_one(self):
        state = pawl.State({"w": array.array("f", [1])})
        with pawl.Run(self.run_path) as run:
            run.save(state, step=1)
            run.wait()
        self.assertIn("restoring it reads 1 entry, 4 B; 0 stay as they are", str(self.ask(model=state)))
        self.assertEqual(repr(state), "<pawl.State of 1 tensor, 0 values>")
        with pawl.open(self.run_path) as checkpoint:
            self.assertIn(" 1 entry>", repr(checkpoint))

    def test_a_step_that_the_job_removes_now_is_no_leftover(self):
        """S09: retention removes a step's manifest first."""
        state = self.save()
        with pawl.Run(self.run_path) as run:
            run.save(state, step=200)
            run.wait()
            (self.run_path / "step-00000150").mkdir()
            found = self.ask()
            self.assertNotIn("S09", self.ids(found))
            self.assertIn("step 150 is being removed, or begun, by the job", str(found))
            self.assertIn("S10 ", str(found).replace(":", " "))
            self.assertIn("this process itself writes to this run", str(found))
        self.assertIn("S09", self.ids(self.ask()))

    def test_frameworks_are_told_without_importing_them(self):
        told = self.program(
            "import sys, pawl; f = pawl.doctor(sys.argv[1], probe=False); print(f[-1].text);"
            "print(any(m in sys.modules for m in ('numpy', 'torch', 'tensorflow', 'jax')))",
            self.run_path,
        )
        self.assertEqual(told.returncode, 0, told.stderr)
        text, imported = told.stdout.splitlines()
        self.assertRegex(text, r"^CPython 3\.")
        self.assertEqual(imported, "False")

    def test_a_damaged_step_and_the_safe_one(self):
        self.save(steps=(100, 200))
        (data,) = (self.run_path / "step-00000200").glob("data-*")
        content = bytearray(data.read_bytes())
        content[4100] ^= 1
        data.write_bytes(content)
        found = self.ask()
        self.assertIn("R08", self.ids(found))
        self.assertTrue(found.able_to_save)
        self.assertIn("step 100, the newest that is not damaged, is safe to restore", str(found))
        self.assertTrue(self.ask(step=100).healthy)

    def test_leftovers(self):
        self.save(steps=(100, 200))
        (self.run_path / "step-00000200" / "manifest.json").unlink()
        found = self.ask()
        self.assertEqual(self.ids(found), ["S09"])
        self.assertEqual(found.troubles[0].command, f"pawl gc {self.run_path}")

    def test_the_report_of_a_live_state_is_that_of_a_restore(self):
        self.save()
        kernel = array.array("d", range(6))
        state = pawl.State({"model/kernel": kernel, "model/more": array.array("f", [1])})
        state["optimizer/class"] = "sgd"
        found = self.ask(model=state)
        with pawl.open(self.run_path) as checkpoint, self.assertRaises(pawl.Mismatch) as refused:
            checkpoint.restore(state)
        self.assertEqual(found.report, refused.exception.report)
        self.assertEqual(set(self.ids(found)), {"R01", "R02", "R03", "R04", "R06"})
        self.assertEqual({one.part for one in found.troubles}, {"restore"})
        self.assertEqual(list(kernel), list(range(6)))

    def test_a_state_that_fits_is_not_touched(self):
        self.save()
        bias = array.array("f", [7, 7])
        state = pawl.State({"model/kernel": array.array("f", [9] * 8), "model/bias": bias, "optimizer/class": "adam"})
        found = self.ask(model=state)
        self.assertTrue(found.healthy, str(found))
        self.assertEqual((found.report.restored, found.report.kept, found.report.bytes), (3, 0, 44))
        self.assertEqual(list(bias), [7, 7])
        found = self.ask(model={"model/bias": bias}, unexpected="allow")
        self.assertTrue(found.healthy, str(found))
        self.assertEqual(found.report.ignored, 2)

    def test_templates(self):
        self.save()
        template = self.directory / "model.json"
        template.write_text(
            json.dumps(
                {
                    "model/kernel": {"shape": [8], "dtype": "float32"},
                    "model/bias": {"shape": [2], "dtype": "F32"},
                    "optimizer/class": {"kind": "string", "role": "hyperparameter", "value": "adam"},
                }
            )
        )
        self.assertEqual(self.ids(self.ask(model=template)), [])
        self.assertEqual(self.ids(self.ask(model=self.run_path)), [])
        template.write_text(json.dumps({"model/kernel": {"shape": [4, 2], "dtype": "float32"}}))
        self.assertEqual(set(self.ids(self.ask(model=str(template)))), {"R01", "R04"})
        template.write_text("{")
        with self.assertRaises(pawl.Damaged) as refused:
            self.ask(model=template)
        self.assertIn("model.json", str(refused.exception))
        with self.assertRaises(pawl.NotFound):
            self.ask(model=self.directory / "none.json")

    def test_a_checkpoint_of_another_tool(self):
        path = self.directory / "w.safetensors"
        with pawl.Run(self.run_path) as run:
            run.save(pawl.State({"w": array.array("f", range(64))}), step=1)
        pawl.convert(self.run_path, path)
        listed = sorted(os.listdir(self.directory))
        found = self.ask(path, model=self.run_path)
        self.assertTrue(found.healthy, str(found))
        self.assertIn("is whole", str(found))
        self.assertEqual({one.part for one in found}, {"checkpoint", "restore", "environment"})
        self.assertEqual(sorted(os.listdir(self.directory)), listed)

    def test_a_damaged_checkpoint_of_another_tool(self):
        path = self.directory / "w.npz"
        self.save()
        pawl.convert(self.run_path, path, drop=True)
        content = bytearray(path.read_bytes())
        content[content.index(b"NUMPY") + 130] ^= 1  # of the first values
        path.write_bytes(content)
        found = self.ask(path)
        self.assertEqual(set(self.ids(found)), {"R08"}, str(found))
        self.assertIn("is not safe to restore", str(found))
        self.assertEqual(found.troubles[-1].command, f"pawl verify {path}")
        path.write_bytes(content[:100])
        self.assertEqual(set(self.ids(self.ask(path))), {"R08"})

    def test_how_often_to_save(self):
        self.save(steps=(1, 2, 3))
        found = self.ask(mtbf_s=86400, probe=True)
        self.assertIn("loses least (Young 1974, Daly 2006)", str(found))
        found = self.ask(need_bytes=1 << 30, every_s=1e-6, probe=True)
        self.assertIn("P11", self.ids(found))

    def test_saves_that_take_longer_than_there_is_between_them(self):
        """By the run's own events, as a job on a slow disk leaves them: each save waits for the one before."""
        self.save(steps=range(8))
        path = self.run_path / "events.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        ended = [line for line in lines if line["event"] == "save_ended"]
        self.assertEqual(len(ended), 8)
        for i, line in enumerate(ended):
            line["unix_time_ns"] += int((i - 8) * 100e9)
            line["seconds"] = 140.0 if i else 100.0
            line["stall"]["busy_wait_s"] = 40.0 if i else 0.0
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found = self.ask(probe=True)
        self.assertEqual(self.ids(found), ["P11"], str(found))
        self.assertIn("takes 1 min 40 s there, as the run's last 8 saves did", str(found))
        self.assertIn("are to be 1 min 0 s apart, as the run's events say", str(found))
        self.assertTrue(self.ask(probe=True, every_s=600).healthy)

    def test_wrong_arguments(self):
        for how in ({"every_s": -1.0}, {"mtbf_s": float("nan")}, {"ranks": -1}, {"step": -1}, {"missing": "perhaps"}):
            with self.subTest(how), self.assertRaises(pawl.UsageError):
                self.ask(**how)
        with self.assertRaises(TypeError):
            self.ask(model=3)

    def test_ranks_that_a_launcher_does_not_know(self):
        told = self.program(
            "import os, sys, pawl; os.environ.update(RANK='0', WORLD_SIZE='2');"
            "print(*(f.id for f in pawl.doctor(sys.argv[1], probe=False, ranks=4).troubles))",
            self.run_path,
        )
        self.assertIn("S12", told.stdout.split(), told.stderr)

    def test_each_rank_hears_of_the_others(self):
        text = (
            "import sys, pawl; rank = int(sys.argv[2]); g = pawl.Group(rank, 2, launch='a');"
            "print(pawl.doctor(sys.argv[1], group=g, group_deadline_s=20, probe=False))"
        )
        import subprocess
        import sys

        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", text, str(self.run_path), str(rank)],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]
        said = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertIn("all 2 ranks, on 1 host, see the same", said[0])
        self.assertIn("rank 0 tells what all 2 ranks see", said[1])
        self.assertEqual(os.listdir(pathlib.Path(self.directory)), [])


if __name__ == "__main__":
    unittest.main()
