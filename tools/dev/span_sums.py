#!/usr/bin/env python3
"""Sums the spans of a profile (--profile FILE) by name: how often, and microseconds in all.

    span_sums.py FILE
"""
import collections
import json
import sys

events = json.load(open(sys.argv[1]))
events = events.get("traceEvents", events) if isinstance(events, dict) else events
sums = collections.defaultdict(lambda: [0, 0.0])
for event in events:
    if event.get("ph") == "X":
        sums[event["name"]][0] += 1
        sums[event["name"]][1] += event["dur"]
for name, (count, total) in sorted(sums.items(), key=lambda item: -item[1][1]):
    print(f"{name:28} {count:8} {total:12.0f}")
