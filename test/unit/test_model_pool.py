# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One copy of the weights, freed by its last user."""

from __future__ import annotations

import gc
import threading
import time
import weakref

from infinipot_ros.node.model_pool import ModelPool
import pytest


class Model:
    """Something that a weak reference can point to."""


def test_many_who_ask_at_once_get_one_model() -> None:
    pool, loads, leases = ModelPool(), [], []

    def load() -> Model:
        loads.append(1)
        time.sleep(0.05)
        return Model()
    threads = [threading.Thread(target=lambda: leases.append(pool.acquire(('demo',), load)))
               for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert len({id(lease.model) for lease in leases}) == 1
    assert len({id(lease.lock) for lease in leases}) == 1


def test_the_last_user_frees_it_and_giving_back_twice_is_once() -> None:
    pool = ModelPool()
    first, second = (pool.acquire(('demo',), Model) for _ in range(2))
    alive = weakref.ref(first.model)
    first.release()
    first.release()
    gc.collect()
    assert second.model is alive()
    second.release()
    gc.collect()
    assert alive() is None
    assert pool.acquire(('demo',), Model).model is not None


def test_other_settings_are_another_model() -> None:
    pool = ModelPool()
    assert pool.acquire(('demo', 'cpu'), Model).model is not pool.acquire(
        ('demo', 'cuda'), Model).model


def test_a_load_that_fails_is_tried_again() -> None:
    pool = ModelPool()

    def fail() -> Model:
        raise OSError('disk')
    with pytest.raises(OSError, match='disk'):
        pool.acquire(('demo',), fail)
    assert isinstance(pool.acquire(('demo',), Model).model, Model)
