"""The answers of every view and question, worked out with pandas from the rows in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from pipeline.estimating.machines import load_machines
from tests.dataflow.sample_output import JOB, History

KEYS = ["conversation_id", "rubric_id", "rubric_version", "question_id"]
RUN = ["run_date", "build", "run_id"]
QUESTION = ["rubric_id", "rubric_version", "question_id"]


def frame(history: History, table: str) -> pd.DataFrame:
    rows = pd.DataFrame(history.rows[table])
    rows["run_date"] = pd.to_datetime(rows["run_date"])
    return rows.assign(job=JOB)


def pairs(history: History) -> pd.DataFrame:
    """Both builds' decisions side by side, with the names the views give them."""
    rows = frame(history, "decisions")
    columns = [*KEYS, "run_date", "decision", "probability", "margin", "gold"]
    base, candidate = (rows[rows.build == b][columns] for b in ("base", "single_pass"))
    both = base.merge(candidate, on=[*KEYS, "run_date"], suffixes=("_base", "_candidate"))
    same = (both.decision_base == both.decision_candidate) | (
        both.decision_base.isna() & both.decision_candidate.isna()
    )
    return both.assign(
        changed=~same,
        smaller_margin=np.minimum(both.margin_base, both.margin_candidate),
        week=both.run_date - pd.to_timedelta(both.run_date.dt.day_of_week, unit="D"),
    )


def mix(history: History) -> pd.DataFrame:
    rows = frame(history, "decisions").dropna(subset="decision")
    keys = ["job", "build", "run_date", *QUESTION]
    counts = rows.groupby([*keys, "decision"], as_index=False).size()
    counts = counts.rename(columns={"size": "answers"})
    return counts.assign(share=counts.answers / counts.groupby(keys).answers.transform("sum"))


def drift(history: History) -> pd.DataFrame:
    wide = mix(history).pivot_table(
        index=["job", "build", *QUESTION, "run_date"],
        columns="decision",
        values=["share", "answers"],
        fill_value=0,
    )
    found = []
    for keys, dates in wide.groupby(level=["job", "build", *QUESTION]):
        shares, answers = dates["share"], dates["answers"].sum(axis=1)
        stamps = dates.index.get_level_values("run_date")
        for place in range(1, len(dates)):
            moved = (shares.iloc[place] - shares.iloc[place - 1]).abs().sum() / 2
            found.append((*keys, stamps[place], stamps[place - 1], answers.iloc[place], moved))
    names = ["job", "build", *QUESTION, "run_date", "previous_date", "answers", "total_variation"]
    return pd.DataFrame(found, columns=names)


def calibration(history: History) -> pd.DataFrame:
    rows = frame(history, "decisions").dropna(subset=["gold", "decision"])
    rows = rows.assign(bin=np.minimum((rows.probability * 10).astype(int), 9))
    return rows.groupby(["job", "build", *QUESTION, "bin"], as_index=False).agg(
        decisions=("correct", "size"),
        mean_probability=("probability", "mean"),
        accuracy=("correct", "mean"),
    )


def throughput(history: History) -> pd.DataFrame:
    runs = frame(history, "runs")
    hourly = runs.machine_type.map(load_machines().dollars_per_hour)
    dollars = runs.engine_seconds / 3600 * hourly
    return runs[["job", *RUN, "machine_type", "decisions", "reads", "seconds"]].assign(
        decisions_per_second=runs.decisions / runs.seconds,
        reads_per_engine_second=runs.reads / runs.engine_seconds,
        steps_per_read=runs.steps / runs.reads,
        single_pass_share=runs.single_pass / runs.reads,
        cached_share=runs.prompt_tokens_cached / runs.prompt_tokens,
        engine_dollars=dollars,
        engine_dollars_per_1000_decisions=dollars / runs.decisions * 1000,
    )


def paired_decisions(history: History) -> pd.DataFrame:
    both = pairs(history)
    names = {
        "decision_base": "baseline_decision",
        "decision_candidate": "candidate_decision",
        "probability_base": "baseline_probability",
        "probability_candidate": "candidate_probability",
        "gold_base": "gold",
    }
    both = both.rename(columns=names)
    both = both.assign(job=JOB, baseline_build="base", candidate_build="single_pass")
    builds = ["job", "run_date", "baseline_build", "candidate_build"]
    return both[[*builds, *KEYS, *names.values(), "smaller_margin", "changed"]]


def flips(history: History) -> pd.DataFrame:
    both = paired_decisions(history)
    return both[both.changed].drop(columns="changed")


def agreement(history: History) -> pd.DataFrame:
    both = pairs(history).assign(job=JOB, baseline_build="base", candidate_build="single_pass")
    keys = ["job", "week", "baseline_build", "candidate_build", *QUESTION]
    found = both.groupby(keys, as_index=False).agg(
        decisions=("changed", "size"), flips=("changed", "sum")
    )
    return found.assign(agreement=1 - found.flips / found.decisions)


def error_rates(history: History) -> pd.DataFrame:
    keys = ["job", *RUN, "stage", "code"]
    rows = frame(history, "errors").groupby(keys, as_index=False).size()
    runs = frame(history, "runs")
    rows = rows.merge(runs[[*RUN, "errors", "decided_cases"]], on=RUN)
    rows = rows.assign(share=rows["size"] / (rows.errors + rows.decided_cases))
    return rows.drop(columns=["errors", "decided_cases"]).rename(columns={"size": "errors"})


def build_pairs(history: History) -> pd.DataFrame:
    runs = frame(history, "runs")
    sides = [runs[runs.build == b][["job", *RUN]] for b in ("base", "single_pass")]
    both = sides[0].merge(sides[1], on=["job", "run_date"], suffixes=("_b", "_c"))
    return both.rename(
        columns={"build_b": "baseline_build", "run_id_b": "baseline_run_id",
                 "build_c": "candidate_build", "run_id_c": "candidate_run_id"}
    )  # fmt: skip


VIEW_ANSWERS: dict[str, Callable[[History], pd.DataFrame]] = {
    "latest_runs": lambda history: frame(history, "runs"),
    "latest_decisions": lambda history: frame(history, "decisions"),
    "build_pairs": build_pairs,
    "paired_decisions": paired_decisions,
    "flips": flips,
    "agreement_by_week": agreement,
    "answer_mix": mix,
    "answer_drift": drift,
    "calibration": calibration,
    "error_rates": error_rates,
    "throughput": throughput,
}


def last_night(history: History) -> pd.DataFrame:
    rows = frame(history, "decisions")
    rows = rows[(rows.question_id == "urgency") & (rows.run_date == rows.run_date.max())]
    found = rows.groupby("decision", as_index=False).agg(
        conversations=("decision", "size"), mean_probability=("probability", "mean")
    )
    return found.sort_values(["conversations", "decision"], ascending=[False, True])


def first_looks(history: History) -> pd.DataFrame:
    rows = frame(history, "option_probabilities")
    rows = rows[(rows.question_id == "urgency") & (rows.option == "urgent")]
    rows = rows[rows.probability >= 0.4][["conversation_id", "build", "probability"]]
    order = ["probability", "conversation_id", "build"]
    return rows.sort_values(order, ascending=[False, True, True]).head(100)


def near_ties(history: History) -> pd.DataFrame:
    rows = frame(history, "decisions").dropna(subset="decision")
    rows = rows.assign(near_ties=rows.margin < 0.1)
    found = rows.groupby(["rubric_id", "question_id"], as_index=False).near_ties.mean()
    return found.sort_values(["near_ties", "question_id"], ascending=[False, True])


def close_calls(history: History) -> pd.DataFrame:
    rows = flips(history).assign(close=lambda rows: rows.smaller_margin < 0.1)
    found = rows.groupby("question_id", as_index=False).agg(
        flips=("close", "size"), close_calls=("close", "sum")
    )
    return found.sort_values(["flips", "question_id"], ascending=[False, True])


def weekly_flips(history: History) -> pd.DataFrame:
    rows = pairs(history).groupby("week", as_index=False).agg(flip_rate=("changed", "mean"))
    return rows.sort_values("week")


def most_moved(history: History) -> pd.DataFrame:
    columns = ["run_date", "build", "question_id", "total_variation"]
    rows = drift(history).query("answers >= 20")[columns]
    order = ["total_variation", "run_date", "build", "question_id"]
    return rows.sort_values(order, ascending=[False, True, True, True]).head(10)


def calibration_error(history: History) -> pd.DataFrame:
    bins = calibration(history)
    bins = bins.assign(gap=bins.decisions * (bins.mean_probability - bins.accuracy).abs())
    found = bins.groupby(["build", "question_id"], as_index=False)[["gap", "decisions"]].sum()
    return found.assign(calibration_error=found.gap / found.decisions).drop(
        columns=["gap", "decisions"]
    )


def costs(history: History) -> pd.DataFrame:
    columns = ["engine_dollars_per_1000_decisions", "single_pass_share", "steps_per_read"]
    return throughput(history).sort_values(["run_date", "build"])[["run_date", "build", *columns]]


def causes(history: History) -> pd.DataFrame:
    return frame(history, "errors").groupby(["run_date", "code"], as_index=False).agg(
        errors=("code", "size")
    )  # fmt: skip


def accuracy(history: History) -> pd.DataFrame:
    rows = frame(history, "decisions").dropna(subset=["gold"])
    rows = rows.groupby(["build", "rubric_id", "question_id"], as_index=False).agg(
        judged=("correct", "size"), accuracy=("correct", "mean")
    )
    return rows.sort_values(["build", "question_id"])


QUESTION_ANSWERS = [
    last_night, first_looks, near_ties, close_calls, weekly_flips, most_moved, calibration_error,
    costs, causes, accuracy,
]  # fmt: skip
