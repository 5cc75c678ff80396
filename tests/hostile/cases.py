# SPDX-License-Identifier: Apache-2.0
"""All cases, by name."""

from case import CASES
import cases_boxes
import cases_data
import cases_events
import cases_keys
import cases_manifest
import cases_marks
import cases_names
import cases_owners
import cases_records
import cases_sums
import cases_table
import cases_values

THEMES = (cases_records, cases_boxes, cases_values, cases_keys, cases_table, cases_sums,
          cases_manifest, cases_data, cases_names, cases_events, cases_owners, cases_marks)

__all__ = ["CASES", "THEMES"]
