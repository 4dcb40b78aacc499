# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The engine thread around a real model: many who ask at once get each their own answer."""

from __future__ import annotations

from collections.abc import Iterator
import threading
import time

from infinipot_ros.errors import NumericError
from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.work import Frame, Hooks, Question
from memory_testing import add, digest
import pytest
from tiny_models import pictures, tiny
import torch

QUESTIONS = ['what?', 'where is it?', 'which one?', 'a', 'how many are there?', 'when was it?',
             'who?', 'what colour was it then?']


def question(text: str) -> Question:
    """Ask about the camera that sees nothing new."""
    return Question(text, time.monotonic() + 100.0, cameras=('front',), max_new_tokens=8)


@pytest.fixture
def engines() -> Iterator[list[EngineThread]]:
    """Two robots on one model, each with a full memory of two cameras."""
    lock, made = threading.Lock(), []
    for scene in (1, 2):
        memory = VideoMemory(tiny(), MemoryConfig(
            budget_mib=4.0, cameras=('front', 'rear'), max_memory_tokens=216, max_new_tokens=8))
        add(memory, 30, scene, camera='front')
        engine = EngineThread(Hooks())
        engine.queue.max_questions = len(QUESTIONS)
        engine.start()
        engine.call(lambda memory=memory, engine=engine: engine.set_memory(memory, lock), 100.0)
        made.append(engine)
    yield made
    for engine in made:
        assert engine.stop(100.0)


def test_eight_at_once_get_their_own_answers_while_frames_arrive(
        engines: list[EngineThread]) -> None:  # transformers#47085
    right = [{text: engine.queue.ask(question(text)).wait().text for text in QUESTIONS}
             for engine in engines]
    assert len(set(right[0].values())) > 4 and right[0] != right[1]
    found: list[list[tuple[str, str]]] = [[], []]

    def ask(robot: int, text: str) -> None:
        for _ in range(3):
            found[robot].append((text, engines[robot].queue.ask(question(text)).wait().text))
    clients = [threading.Thread(target=ask, args=(robot, text))
               for robot in range(2) for text in QUESTIONS]
    for client in clients:
        client.start()
    for stamp, rgb in enumerate(pictures(20, 3)):
        for engine in engines:
            engine.queue.offer(Frame('rear', stamp, '', rgb))
    for client in clients:
        client.join()
    for robot in range(2):
        assert len(found[robot]) == 3 * len(QUESTIONS)
        assert all(answer == right[robot][text] for text, answer in found[robot])


def test_a_model_that_gives_nan_costs_the_answer_and_leaves_the_memory(
        engines: list[EngineThread], monkeypatch: pytest.MonkeyPatch) -> None:  # Qwen-VL#364
    engine = engines[0]
    right, before = engine.queue.ask(question('what?')).wait().text, digest(engine.memory)
    logits, nan = tiny().logits, float('nan')
    monkeypatch.setattr(tiny(), 'logits', lambda states: torch.full_like(logits(states), nan))
    with pytest.raises(NumericError, match='NaN'):
        engine.queue.ask(question('what?')).wait()
    assert digest(engine.memory) == before
    monkeypatch.undo()
    assert engine.queue.ask(question('what?')).wait().text == right
    assert engine.counts['failed'] == 1
