"""Every table's schema, once. Files, DDL and readers are derived from here.

Tables are Parquet files under `TABLE/run_date=YYYY-MM-DD/build=NAME/run_id=ID/`; the three
partition keys are in the path only. Rows inside a file are sorted by the table's `keys`. No lists
or maps, so joins stay plain; probabilities are float64; timestamps are microseconds UTC.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

PARTITION_KEYS = (("run_date", pa.date32()), ("build", pa.string()), ("run_id", pa.string()))

_TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Column:
    """One column: its type, whether a value may be missing, and what it holds."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """One table: columns in file order and the keys that sort and identify its rows."""

    name: str
    description: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])


def _key(name: str, description: str) -> Column:
    return Column(name, pa.string(), description, nullable=False)


def _str(name: str, description: str) -> Column:
    return Column(name, pa.string(), description)


def _int(name: str, description: str) -> Column:
    return Column(name, pa.int64(), description)


def _num(name: str, description: str) -> Column:
    return Column(name, pa.float64(), description)


def _bool(name: str, description: str) -> Column:
    return Column(name, pa.bool_(), description)


_DECISION_KEYS = (
    _key("conversation_id", "id of the conversation in its shard"),
    _key("rubric_id", "rubric asked"),
    _key("rubric_version", "version of the rubric"),
    _key("question_id", "question asked"),
)

DECISIONS = Table(
    "decisions",
    "One row per conversation, rubric and question.",
    ("conversation_id", "rubric_id", "rubric_version", "question_id"),
    (
        *_DECISION_KEYS,
        _str(
            "conversation_group",
            "shared by conversations that are not independent, where the input states it",
        ),
        _str("question_type", "noul, choice or score"),
        _str("decision", "name of the most probable option; null when skipped"),
        _int("decision_index", "its place among the options, from 0"),
        _num("probability", "its probability, over the question's own options"),
        _num("margin", "probability of the best option minus that of the second best"),
        _num("entropy_nats", "entropy of the options' distribution"),
        _num("expected_score", "sum of level x probability, levels from 0; score questions only"),
        _num("label_mass", "probability the engine's normaliser gave to this question's labels"),
        _int("draws", "reads averaged"),
        _num("standard_error", "of the decision's probability over draws; null for one draw"),
        _num("agreement", "share of draws whose best option is the decision"),
        _str("skipped_because", "question whose answer failed ask_if; null when asked"),
        _str("gold", "expected option, where the input states it"),
        _bool("correct", "decision equals gold; null without gold"),
        _str("dialect", "how the rubric was phrased"),
        _str("prompt_sha256", "of the prompt's token ids"),
        _str("canvas_sha256", "of the canvas's token ids before noise, slot positions and labels"),
        _int("prompt_tokens", "prompt length"),
        _int("canvas_width", "canvas length"),
        _int("dropped_tokens", "conversation tokens cut by on_too_long"),
        _int("escaped_control_tokens", "control-token look-alikes in the text, encoded as text"),
        _bool("single_pass", "prompt and canvas ran in one engine step (all draws)"),
        _int("batch_reads", "reads in the engine call that answered it"),
        _int("seed", "seed of the canvas noise"),
        Column("decided_at", _TIMESTAMP, "when the engine answered"),
    ),
)

OPTION_PROBABILITIES = Table(
    "option_probabilities",
    "One row per option of every decided question; a question's probabilities sum to 1.",
    ("conversation_id", "rubric_id", "rubric_version", "question_id", "option_index"),
    (
        *_DECISION_KEYS,
        _str("option", "name of the option"),
        Column("option_index", pa.int64(), "its place among the options, from 0", nullable=False),
        _int("label_token_id", "token that stands for it in the canvas"),
        _num("logprob", "mean over draws of the engine's log probability of the label"),
        _num("probability", "over the question's own options, averaged over draws"),
        _bool("is_decision", "this option is the decision"),
    ),
)

ERRORS = Table(
    "errors",
    "One row per record, or per conversation and rubric, that could not be decided.",
    ("source", "record_index", "rubric_id"),
    (
        _str("source", "shard, relative to the input"),
        _int("record_index", "record in the shard, from 0; null when the shard itself is bad"),
        _str("conversation_id", "where the record has one"),
        _str("rubric_id", "null before a rubric is involved"),
        _str("stage", "read, parse, plan or decide"),
        _str("code", "stable name of the problem"),
        _str("message", "what is wrong and what to do; never text of the conversation"),
    ),
)

RUNS = Table(
    "runs",
    "One row per complete run; a run without one is unfinished.",
    ("run_id",),
    (
        _key("job", "name of the job"),
        Column("started_at", _TIMESTAMP, "start of the run"),
        Column("finished_at", _TIMESTAMP, "end of the run"),
        _num("seconds", "wall time of the run"),
        _str(
            "fingerprint_sha256",
            "of fingerprint_json without machine-local facts",
        ),
        _str("fingerprint_json", "build, versions, flags, hashes, CPU"),
        _str("model", "model path or name"),
        _str("model_sha256", "of the checkpoint's files"),
        _str("tokenizer_sha256", "of tokenizer.json"),
        _str("dtype", "weights and activations"),
        _bool("single_pass_reads", "the flag"),
        _str("vllm_version", ""),
        _str("torch_version", ""),
        _str("onepass_version", ""),
        _str("machine_type", "as configured or found"),
        _str("cpu_model", ""),
        _str("cpu_features", "amx, avx512, avx2, space separated"),
        _int("threads", "torch threads of the engine"),
        _int("records", "records read"),
        _int("cases", "conversation x rubric pairs planned"),
        _int("decided_cases", "cases with decisions"),
        _int("decisions", "rows in decisions"),
        _int("options", "rows in option_probabilities"),
        _int("errors", "rows in errors"),
        _int("parts", "input parts"),
        _int("resumed_parts", "parts taken over from an earlier run"),
        _int("steps", "engine steps"),
        _int("reads", "reads answered"),
        _int("single_pass", "reads answered in one step"),
        _int("two_step_flag_off", "reads in two steps because the flag is off"),
        _int("two_step_not_eligible", "... because they are not eligible"),
        _int("two_step_token_budget", "... because chunk + width exceeded the step's token budget"),
        _int("two_step_model_length", "... because prompt + width exceeded max_model_len"),
        _int("prompt_tokens", "prompt tokens sent"),
        _int("prompt_tokens_computed", "prompt tokens computed"),
        _int("prompt_tokens_cached", "prompt tokens from the prefix cache"),
        _int("canvas_tokens", "canvas tokens denoised"),
        _int("logits_columns", "rows x columns of the unembedding"),
        _num("engine_seconds", "wall time inside engine steps"),
    ),
)

_SIDES = ("baseline", "candidate")

DIFFS = Table(
    "diffs",
    "One row per decision compared between two runs.",
    ("conversation_id", "rubric_id", "rubric_version", "question_id"),
    (
        *_DECISION_KEYS,
        _str("conversation_group", "the baseline's, or the candidate's where it states none"),
        _str("question_type", "noul, choice or score"),
        _key("status", "both, baseline_only or candidate_only"),
        *(_str(f"{s}_decision", f"decision in the {s}") for s in _SIDES),
        *(_num(f"{s}_probability", f"its probability in the {s}") for s in _SIDES),
        *(_num(f"{s}_margin", f"best minus second best in the {s}") for s in _SIDES),
        *(_bool(f"{s}_single_pass", f"one engine step in the {s}") for s in _SIDES),
        *(_int(f"{s}_batch_reads", f"reads in the engine call of the {s}") for s in _SIDES),
        _bool("changed", "the decisions differ"),
        _bool(
            "crossed",
            "one run alone reaches a threshold of the question; null where none applies",
        ),
        _str(
            "flip_class",
            "near_tie, substantive, or cascade (an earlier answer that this question depends on "
            "flipped); null when unchanged, or when there is neither a repeat nor an fp32 run",
        ),
        _num("total_variation", "half the sum of absolute probability changes"),
        _num("jensen_shannon", "divergence in nats"),
        _num("max_abs_delta", "largest absolute probability change of an option"),
        _num(
            "gap_movement",
            "largest change of the gap between two options; a flip needs at least the margin",
        ),
        _num("delta_expected_score", "candidate minus baseline; score questions only"),
        _str("gold", "expected option, where the input states it"),
        *(_bool(f"{s}_correct", f"the {s} equals gold") for s in _SIDES),
        _str("noise_decision", "decision in the repeat of the baseline"),
        _str("fp32_decision", "decision in the fp32 run"),
    ),
)

DIFF_SUMMARY = Table(
    "diff_summary",
    "One row per question, and one overall (rubric_id and question_id '*').",
    ("rubric_id", "question_id"),
    (
        _key("rubric_id", "rubric, or '*'"),
        _key("question_id", "question, or '*'"),
        _str("baseline_run", "run id"),
        _str("candidate_run", "run id"),
        _str("noise_run", "run id of the repeat that sets the floor"),
        _str("fp32_run", "run id of the fp32 run that near ties are measured against"),
        _num("near_tie_margin", "margins up to this are near ties"),
        _int("pairs", "decisions in both runs, asked in at least one"),
        _int("conversations", "conversations these come from"),
        _int(
            "clusters",
            "groups of conversations these come from, and conversations without a group: what the "
            "bootstrap resamples; beyond 32,768 groups an estimate within 2%",
        ),
        _int("baseline_only", "decisions the candidate lacks"),
        _int("candidate_only", "decisions the baseline lacks"),
        _int("flips", "decisions that differ"),
        _int("near_tie_flips", "flips with a margin no larger than noise; null when unknown"),
        _int("substantive_flips", "other flips; null when unknown"),
        _int("cascade_flips", "flips behind another flip of the same conversation"),
        _int("threshold_pairs", "pairs with a threshold; null when none applies"),
        _int("threshold_crossings", "of these, decisions in which one run alone reaches it"),
        _num("flip_rate", "flips / pairs"),
        _num("flip_rate_low", "Wilson 95%, decisions taken as independent"),
        _num("flip_rate_high", "Wilson 95%, decisions taken as independent"),
        _num("flip_rate_cluster_low", "Wilson 95% at the cluster bootstrap's effective size"),
        _num("flip_rate_cluster_high", "Wilson 95% at the cluster bootstrap's effective size"),
        _num("design_effect", "decisions that carry as much as one independent decision"),
        _int("noise_pairs", "pairs that the repeat run has too"),
        _int("noise_flips", "of these, decisions in which the repeat differs from the baseline"),
        _num("noise_floor", "noise_flips / noise_pairs"),
        _int("candidate_only_flips", "of noise_pairs: changed in the candidate, not in the repeat"),
        _int("noise_only_flips", "of noise_pairs: changed in the repeat, not in the candidate"),
        _num("above_floor", "flip rate over noise_pairs, minus the floor"),
        _num("above_floor_low", "paired 95%"),
        _num("above_floor_high", "paired 95%"),
        _num("kappa", "Cohen"),
        _num("ac1", "Gwet"),
        _num("mean_total_variation", "over decisions asked in both runs"),
        _num("p99_total_variation", "99% moved at most this much"),
        _num("max_total_variation", "largest"),
        _num("mean_jensen_shannon", "nats"),
        _int("gold_pairs", "pairs with gold"),
        _int("fixes", "wrong in the baseline, right in the candidate"),
        _int("breaks", "right in the baseline, wrong in the candidate"),
        _num("mcnemar_p", "exact; null when not testable"),
        _str("mcnemar_note", "why it is not testable"),
        _num("mcnemar_p_adjusted", "Benjamini-Hochberg over the questions tested"),
        *(_num(f"{s}_accuracy", f"of the {s}, over gold_pairs") for s in _SIDES),
        *(
            _num(f"delta_{m}{e}", f"candidate minus baseline{e.replace('_', ', 95% ')}")
            for m in ("accuracy", "brier", "log_loss", "ece")
            for e in ("", "_low", "_high")
        ),
        _str("verdict", "same, moved or undecided"),
        _str("verdict_reason", "the verdict's figures in one sentence"),
    ),
)

TABLES = {t.name: t for t in (DECISIONS, OPTION_PROBABILITIES, ERRORS, RUNS, DIFFS, DIFF_SUMMARY)}
