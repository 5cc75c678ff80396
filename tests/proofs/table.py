# SPDX-License-Identifier: Apache-2.0
"""Prints the results of proof programs (a file of JSON lines) as a table and writes them as one list."""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as lines:
        proofs = [json.loads(line) for line in lines if line.startswith("{")]
    width = max([len(proof["name"]) for proof in proofs], default=4)
    print(f"{'what was tried':<{width}}  {'tried':>9}  {'lost or undetected':>18}")
    for proof in proofs:
        line = f"{proof['name']:<{width}}  {proof['tried']:>9,}  {proof['lost']:>18,}  {proof.get('note', '')}"
        print(line.rstrip())
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        json.dump(proofs, out, indent=1)
        out.write("\n")
    lost = sum(proof["lost"] for proof in proofs)
    tried = sum(proof["tried"] for proof in proofs)
    print(f"{'all':<{width}}  {tried:>9,}  {lost:>18,}")
    return 0 if proofs and lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
