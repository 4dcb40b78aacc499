# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""ReKV: keep everything elsewhere, and fetch the frames that a question is about."""

from __future__ import annotations

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.policies.frame_means import frame_means
from infinipot_ros.memory.policies.layer_view import LayerView
from infinipot_ros.memory.policies.registry import register
from infinipot_ros.memory.policies.selection import keep_top
from infinipot_ros.memory.policies.windows import select_newest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

register(
    'rekv_no_offload', 'ReKV without its CPU memory: the local window', frees_one_frame=True
)(select_newest)


def frame_likeness(means: Tensor, question: Tensor) -> Tensor:
    """
    Return the cosine of the question with each frame: [F, H, D], [Q, n, D] -> [F].

    A frame is its mean key in every head, side by side; the question its mean query, averaged over
    the queries that share a KV head. Raises `ConfigError` where queries do not share heads evenly.
    """
    heads, size = means.shape[1:]
    if question.dim() != 3 or question.shape[0] % heads or question.shape[2] != size:
        raise ConfigError(
            f'question must be [a multiple of {heads} heads, tokens, {size}], '
            f'not {list(question.shape)}'
        )
    asked = question.to(means.dtype).mean(1).view(heads, -1, size).mean(1).to(means.device)
    return cosine_similarity(means.flatten(1), asked.flatten(), dim=-1)


@register(
    'rekv',
    'everything in CPU memory, frames fetched by the question (ReKV)',
    required=('question',),
    on_robot=False,
    evicts=False,
    ranks_frames=frame_likeness,
)
def select_rekv(view: LayerView, budget: int) -> Tensor:
    """
    Keep the frames most like the question, in time order, the last of them cut to fit.

    So chooses a question among what is on the device (`question_policy`); frames of the memory's
    own policy come out of its store instead, by `frame_likeness`.
    """
    place = torch.searchsorted(view.frame_ids, view.frame)
    # Frames are ranked, so that two equally relevant ones do not share the tokens between them.
    order = frame_relevance(view).argsort(descending=True, stable=True)
    rank = order.argsort()
    return keep_top(-rank[place].float(), budget)


def frame_relevance(view: LayerView) -> Tensor:
    """Return the likeness of the question to each frame that is held, [F], in time order."""
    assert view.question is not None  # Policy.required saw to it.
    return frame_likeness(frame_means(view, view.keys).transpose(0, 1), view.question)
