# SPDX-License-Identifier: Apache-2.0
"""Prints the results of proof programs, JSON lines from its input, as a table, each as it comes, and writes
them as one list. Fails when a program did or when anything was lost."""
import json
import sys

WIDTH = 48


def row(what, tried, lost, note=""):
    print(f"{what:<{WIDTH}}  {tried:>9}  {lost:>18}  {note}".rstrip(), flush=True)


def main():
    proofs, failed = [], []
    row("what was tried", "tried", "lost or undetected")
    for line in sys.stdin:
        result = json.loads(line) if line.startswith("{") else {}
        if "failed" in result:
            failed.append(result["failed"])
        elif result:
            proofs.append(result)
            row(result["name"], f"{result['tried']:,}", f"{result['lost']:,}", result.get("note", ""))
    row("all", f"{sum(proof['tried'] for proof in proofs):,}", f"{sum(proof['lost'] for proof in proofs):,}")
    for program in failed:
        print(f"{program} failed")
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(proofs, out, indent=1)
        out.write("\n")
    return 0 if proofs and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
