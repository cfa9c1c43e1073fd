"""The engines benchmarks compare, behind one face (`engine.bench.worker.Measured`)."""
