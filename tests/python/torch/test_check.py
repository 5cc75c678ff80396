# SPDX-License-Identifier: Apache-2.0
"""DataLoaders looked at before the run (J01, J02): what PyTorch does first, then what pawl says."""

import random
import unittest

import support  # first: it finds the package
import numpy
import pawl
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


class Drawn(Dataset):
    """Examples that draw from every source of random numbers."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.tensor([float(i), random.random(), float(numpy.random.rand()), float(torch.rand(()))])


class Streamed(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (torch.tensor([float(i)]) for i in range(self.count))


def found(loader, **options):
    return [(one.id, one.severity, one.text) for one in pawl.check_dataset(loader, **options)]


REST = ("J01", "warning", "batch 6, the last one, has 4 examples, the others have 16: 100 examples in batches of 16")


class Loaders(support.InDirectory):
    def test_a_remainder_j01(self):
        model = torch.nn.RNN(3, 4, batch_first=True)
        loader = DataLoader(TensorDataset(torch.ones(100, 5, 3)), batch_size=16, shuffle=True)
        state = None
        with self.assertRaisesRegex(RuntimeError, r"Expected hidden size \(1, 4, 4\), got \[1, 16, 4\]"):
            for (batch,) in loader:
                _, state = model(batch, None if state is None else state.detach())
        self.assertEqual(found(loader), [REST])
        self.assertEqual(
            pawl.check_dataset(loader)[0].next,
            "drop it: DataLoader(..., drop_last=True); or pad it in collate_fn, with weights of 0",
        )
        dropped = DataLoader(TensorDataset(torch.ones(100, 5, 3)), batch_size=16, drop_last=True)
        self.assertEqual([one[0] for one in found(dropped)], ["ok"])
        few = DataLoader(TensorDataset(torch.ones(10, 3)), batch_size=16)
        self.assertEqual(found(few), [("J01", "warning", "the only batch has 10 examples, not 16")])
        none = DataLoader(TensorDataset(torch.ones(10, 3)), batch_size=16, drop_last=True)
        self.assertEqual(list(none), [])  # silent: nothing is trained
        self.assertEqual(
            found(none), [("J01", "error", "10 examples make no batch of 16, and what does not is dropped")]
        )

    def test_a_share_of_each_rank_j01(self):
        dataset = TensorDataset(torch.ones(100, 3))
        sampler = torch.utils.data.DistributedSampler(dataset, num_replicas=3, rank=0)  # 34 of each rank
        loader = DataLoader(dataset, batch_size=16, sampler=sampler)
        self.assertEqual([len(one) for (one,) in loader][-1], 2)
        self.assertEqual(
            found(loader),
            [
                (
                    "J01",
                    "warning",
                    "batch 2, the last one, has 2 examples, the others have 16: 34 examples in batches of 16",
                )
            ],
        )

    def test_looking_draws_no_random_numbers(self):
        def order(looked):
            random.seed(1)
            numpy.random.seed(1)
            torch.manual_seed(1)
            generator = torch.Generator().manual_seed(2)
            loader = DataLoader(Drawn(30), batch_size=8, shuffle=True, generator=generator)
            if looked:
                self.assertEqual(found(loader)[0][0], "J01")
            return [batch.tolist() for batch in loader]

        self.assertEqual(order(True), order(False))

    def test_examples_of_several_lengths_j02(self):
        loader = DataLoader([torch.ones(3), torch.ones(4), torch.ones(3)], batch_size=3)
        with self.assertRaisesRegex(RuntimeError, "stack expects each tensor to be equal size"):
            next(iter(loader))
        ((identity, severity, text),) = found(loader)
        self.assertEqual((identity, severity), ("J02", "warning"))
        self.assertRegex(text, "^the examples of the first batch cannot be put together: RuntimeError: stack expects")
        pad = torch.nn.utils.rnn.pad_sequence  # the advice
        padded = DataLoader([torch.ones(3), torch.ones(4), torch.ones(3)], batch_size=3, collate_fn=pad)
        self.assertEqual([one[0] for one in found(padded)], ["ok"])

    def test_a_last_example_of_another_shape_or_type_j02(self):
        examples = [{"x": torch.ones(3)} for _ in range(8)]
        for last, words in (
            (torch.ones(4), "`x`: an example is F32 [3] in the first batch, F32 [4] in the last"),
            (torch.ones(3, dtype=torch.int32), "`x`: an example is F32 [3] in the first batch, I32 [3] in the last"),
        ):
            loader = DataLoader([*examples, {"x": last}], batch_size=8)
            with self.subTest(words):
                self.assertEqual(found(loader)[0], ("J02", "warning", words))

    def test_text_and_float64_j02(self):
        loader = DataLoader([{"name": "a", "x": 1.0}, {"name": "b", "x": 2.0}], batch_size=2)
        self.assertEqual(
            found(loader),
            [
                ("J02", "warning", "`name` is text"),
                ("J02", "warning", "`x` has dtype F64; accelerators compute it slowly or not at all"),
            ],
        )

    def test_ragged_and_sparse_j02(self):
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
        for value, word in ((nested, "ragged"), (torch.eye(3).to_sparse(), "sparse")):
            with self.subTest(word), self.assertRaises(pawl.UsageError) as caught:
                pawl.BatchCheck().next({"x": value})
            self.assertEqual(caught.exception.attempt, f"batch 0 `x` is {word}")

    def test_a_stream_j01(self):
        loader = DataLoader(Streamed(10), batch_size=4)
        ((identity, severity, text),) = found(loader)
        self.assertEqual((identity, severity), ("J01", "note"))
        self.assertIn("the size of the last batch is unknown", text)
        self.assertEqual(
            found(loader, read="all"),
            [("J01", "warning", "batch 2 `batch` has shape [2,1], the first had [4,1]; drop or pad the remainder")],
        )
        self.assertEqual([one[0] for one in found(DataLoader(Streamed(10), batch_size=4, drop_last=True))], ["ok"])

    def test_batches_that_the_dataset_makes_itself_j01(self):
        loader = DataLoader([torch.ones(8, 2), torch.ones(8, 2), torch.ones(5, 2)], batch_size=None)
        self.assertEqual(
            found(loader), [("J01", "warning", "batch 2, the last one, has 5 examples, the others have 8")]
        )

    def test_nothing_in_it_j01(self):
        loader = DataLoader([], batch_size=4, sampler=[])
        self.assertEqual(found(loader), [("J01", "error", "there is no batch")])

    def test_each_batch_while_the_job_runs_j01(self):
        loader = DataLoader(TensorDataset(torch.ones(40, 3), torch.ones(40)), batch_size=16)
        check, seen = pawl.BatchCheck(), 0
        with self.assertRaises(pawl.Mismatch) as caught:
            for x, _y in check.over(loader):
                seen += len(x)
        self.assertEqual(seen, 32)
        self.assertEqual(
            caught.exception.attempt, "batch 2 `0` has shape [8,3], the first had [16,3]; drop or pad the remainder"
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
