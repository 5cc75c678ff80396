# SPDX-License-Identifier: Apache-2.0
"""Figures and tables. A figure is a ratio in which more is better, taken anew in each round of one
run; its value is the median over the rounds, its spread their quartiles, its floor the least that it
may be."""

import json
import statistics


def quartiles(values):
    if len(values) == 1:
        return [values[0], values[0]]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return [low, high]


def short(number):
    return float(f"{number:.4g}")


def table(head, rows, indent=""):
    """Columns as wide as they need; the first one to the left."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        line = "  ".join(cell.ljust(width) if i == 0 or i == len(head) - 1 else cell.rjust(width)
                         for i, (cell, width) in enumerate(zip(row, widths)))
        lines.append(indent + line.rstrip())
    lines.insert(1, indent + "  ".join("-" * width for width in widths))
    return "\n".join(lines)


class Report:
    def __init__(self):
        self.figures = []
        self.in_table = []
        self.tables = []   # (title, head, rows)
        self.remarks = []

    def figure(self, name, values, floor=None, note="", in_table=True):
        """Adds a figure from the rounds' `values`, if there are any. A figure that is not meant for
        the table is listed there when it is below its floor."""
        if not values:
            return None
        figure = {"figure": name, "value": short(statistics.median(values)), "unit": "ratio",
                  "spread": [short(v) for v in quartiles(values)],
                  "floor": None if floor is None else short(floor), "rounds": len(values),
                  "note": note}
        self.figures.append(figure)
        if in_table:
            self.in_table.append(figure)
        return figure

    @staticmethod
    def mark(figure):
        """A cell for a figure."""
        if figure is None:
            return "-"
        return f"{figure['value']:g}" + (" *" if Report.verdict(figure) == "BELOW" else "")

    def table(self, title, head, rows):
        self.tables.append((title, head, rows))

    def remark(self, text):
        self.remarks.append(text)

    @staticmethod
    def verdict(figure):
        if figure["floor"] is None:
            return ""
        return "ok" if figure["value"] >= figure["floor"] else "BELOW"

    def text(self):
        parts = []
        for title, head, rows in self.tables:
            parts.append(title + "\n" + table(head, rows, "  "))
        parts.append("figures: ratios, more is better; median and quartiles of the rounds\n" +
                     self._rows(self.in_table))
        behind = [f for f in self.figures if f not in self.in_table and self.verdict(f) == "BELOW"]
        if behind:
            parts.append("where a peer is ahead (*), and why\n" + self._rows(behind))
        if self.remarks:
            parts.append("remarks\n" + "\n".join("  " + remark for remark in self.remarks))
        below = sum(self.verdict(f) == "BELOW" for f in self.figures)
        barred = sum(f["floor"] is not None for f in self.figures)
        parts.append(f"{barred - below} of {barred} figures with a floor are at or above it")
        return "\n\n".join(parts) + "\n"

    def _rows(self, figures):
        rows = [(f["figure"], f["value"], f"{f['spread'][0]}..{f['spread'][1]}",
                 "" if f["floor"] is None else f["floor"], f["rounds"], self.verdict(f), f["note"])
                for f in figures]
        return table(("figure", "value", "quartiles", "floor", "rounds", "", ""), rows, "  ")

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.figures, indent=1, ensure_ascii=False) + "\n",
                        encoding="utf-8")
