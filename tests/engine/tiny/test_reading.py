"""Shared prefixes and padding change nothing: batched reads equal single ones."""

import random

from engine.tiny.examples import Batch, Example, Target
from engine.tiny.tokenizer import VOCAB_SIZE
from engine.vllm_plugin import torchvision_fix

torchvision_fix.install()
import torch  # noqa: E402


def test_batched_reads_equal_single_ones() -> None:
    from engine.tiny.architecture import new_model
    from engine.tiny.reading import read

    rng = random.Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(VOCAB_SIZE) for _ in range(count))

    model = new_model(0).eval()
    targets = (Target(3, {1: 1.0}), Target(9, {1: 1.0}))
    batch = Batch(ids(40), tuple(Example(ids(n), ids(16), targets) for n in (7, 30, 19)))
    with torch.inference_mode():
        together = read(model, batch).slot_logits
        alone = [
            model(
                input_ids=torch.tensor([batch.prefix_ids + example.prompt_rest_ids]),
                decoder_input_ids=torch.tensor([example.canvas_ids]),
            ).logits[0, [3, 9]]
            for example in batch.examples
        ]
    assert torch.allclose(together, torch.cat(alone), atol=2e-4)
    assert together.std() > 0.1


def _batch_of(step: int) -> Batch:
    """Four examples to tell apart by what they begin with."""
    examples = (
        Example((1000 + i, 1500), (400, 500, 106, 0), (Target(1, {600 + i: 1.0}),), (i % 2,))
        for i in range(4)
    )
    return Batch(tuple(range(300, 320)), tuple(examples))


def _losses(steps: int, processes: int) -> list[float]:
    from engine.tiny.train import Progress, train

    log: list[Progress] = []
    train(_batch_of, steps=steps, seed=0, processes=processes, report=log.append)
    assert log[-1].step == steps
    return [progress.loss for progress in log]


def test_the_loss_falls() -> None:
    losses = _losses(100, 1)
    assert losses[-1] < 0.5 * losses[0]


def test_two_processes_train_as_one() -> None:
    """But for the balance of experts, which each looks after in its own part."""
    (alone,), (together,) = _losses(3, 1), _losses(3, 2)
    assert abs(together - alone) < 0.01 * alone
