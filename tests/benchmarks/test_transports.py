"""What is said of two transports that were measured in turns."""

from __future__ import annotations

from benchmarks.measuring.alone.round_trips import RoundTrips
from benchmarks.transports import describe


def test_rates_costs_and_the_ratios_of_neighbours_are_told():
    seen = {
        "pipe": [RoundTrips(100, 1.0, 0.001), RoundTrips(200, 1.0, 0.002), RoundTrips(900, 1.0, 0.009)],
        "fifo": [RoundTrips(50, 1.0, 0.001), RoundTrips(200, 2.0, 0.004), RoundTrips(300, 1.0, 0.012)],
    }
    line = describe(16, seen)
    # Rates of fifo are 50, 100 and 300; a question costs it 20, 20 and 40 µs.
    assert line == "| 16 | 200 | 100 | 0.50 (0.33 to 0.50) | 10.0 | 20.0 | 2.00 (2.00 to 4.00) |"
