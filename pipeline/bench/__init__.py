"""Benchmarks: what is asked, how arms are compared, what is written down.

Each module measures one thing and returns a `BenchResult`; `engine.bench` holds the engines.
"""
