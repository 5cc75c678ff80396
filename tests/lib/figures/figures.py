#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the figures of saves add up, in every events.jsonl below the directories that are named?

As programs outside the library find them; figures.c asks the same of every save inside it.
"""

import json
import os
import sys

SKIPPED = 77
PARTS = ("prepare_s", "write_s", "sync_s", "commit_s")


def micro(seconds):
    return round(seconds * 1e6)


def complaint(event):
    """What is wrong with a save's end; None: nothing."""
    parts = [micro(event["phases"][name]) for name in PARTS]
    parts.append(micro(event["stall"]["busy_wait_s"]))
    whole = micro(event["seconds"])
    if sum(parts) > whole:
        return f"the parts, {sum(parts)} us, are more than the whole, {whole} us"
    if micro(event["phases"].get("group_wait_s", 0)) > micro(event["phases"]["commit_s"]):
        return "ranks were waited for outside the commit"
    return None


def ends(path):
    """The ends of saves in one file; what is no event is passed over."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and event.get("event") == "save_ended" \
                    and "tidy_s" in event:
                yield event


def check(folder):
    """How many saves were looked at, and the complaints."""
    count = 0
    complaints = []
    for where, _, names in os.walk(folder):
        for name in names:
            if name not in ("events.jsonl", "events.old.jsonl"):
                continue
            path = os.path.join(where, name)
            if not os.path.isfile(path) or not os.access(path, os.R_OK):
                continue
            for event in ends(path):
                count += 1
                wrong = complaint(event)
                if wrong is not None:
                    complaints.append(f"{path}: step {event['step']}: {wrong}: {event}")
    return count, complaints


def main():
    count = 0
    complaints = []
    for folder in sys.argv[1:]:
        more, found = check(folder)
        count += more
        complaints += found
    for one in complaints:
        print(one)
    print(f"{count} saves; the figures of {len(complaints)} do not add up")
    if count == 0:
        print("SKIP: no run was left to look at")
        sys.exit(SKIPPED)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
