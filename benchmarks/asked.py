"""What a measuring command is asked for."""

from __future__ import annotations

import argparse


def at_least_one(told: str) -> int:
    """Return a number of things to measure; argparse says so where it is none: of nothing there is no measure."""
    number = int(told)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


at_least_one.__name__ = "number"  # argparse calls it so where it is no number at all
