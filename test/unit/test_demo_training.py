# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo model is trained on what the product computes: same patches, positions and masks."""

from infinipot_ros.demo.architecture import build_model, GRID, save_model
from infinipot_ros.demo.clips import cell_labels, draw_clip, IGNORED, NO_THING, to_patches
from infinipot_ros.demo.packing import Packer
from infinipot_ros.demo.things import COLOURS
from infinipot_ros.demo.train import Schedule, Trainer
from infinipot_ros.demo.vision import encode_frames
from infinipot_ros.demo.vocabulary import build_tokenizer
from infinipot_ros.demo.world import Drive
from infinipot_ros.memory.positions import PositionScheme
import numpy as np
import torch
from transformers import AutoImageProcessor


def _clips(count, frames=8, seed=0):
    rng = np.random.default_rng(seed)
    return [draw_clip(rng, frames, 8) for _ in range(count)], rng


def test_patches_are_those_of_the_image_processor(tmp_path):
    model, tokenizer = build_model(0)
    save_model(model, tokenizer, tmp_path)
    processor = AutoImageProcessor.from_pretrained(tmp_path, backend='pil')
    rgb = Drive(1, 'calm', 4).frame(2).rgb
    theirs = processor(images=[rgb], return_tensors='np')['pixel_values']
    np.testing.assert_allclose(to_patches(rgb[None])[0], theirs, atol=1e-6)


def test_batched_vision_equals_the_stock_forward():
    model, _ = build_model(0)
    patches = torch.from_numpy(to_patches(np.stack([Drive(1).frame(i).rgb for i in range(3)])))
    with torch.inference_mode():
        ours = encode_frames(model.model.visual, patches)
        stock = model.model.visual(patches.flatten(0, 1), torch.tensor([[1, 8, 8]] * 3))
    torch.testing.assert_close(ours.flatten(0, 1), stock.pooler_output, atol=1e-5, rtol=1e-5)


def test_positions_are_those_that_the_engine_assigns():
    clips, rng = _clips(6)
    packer = Packer(build_tokenizer())
    sinks = len(packer.sinks)
    scheme = PositionScheme((GRID, GRID), 64, 1.0, torch.device('cpu'))
    for clip in clips:
        batch = packer.pack([clip], rng)
        frame, patch = np.nonzero(clip.kept)
        engine, next_rank = scheme.past(
            torch.tensor(frame)[None, None], torch.tensor(patch)[None, None], sinks, 0, 1)
        ours = batch.positions[:, 0, sinks:sinks + len(frame)]
        theirs = torch.stack([axis.broadcast_to(1, 1, len(frame))[0, 0] for axis in engine.axes])
        # a clip may stand later in time, as the heads that keep fewer frames do
        shift = int(ours[0, 0] - theirs[0, 0])
        assert shift >= 0
        torch.testing.assert_close(ours[0], theirs[0].long() + shift)
        torch.testing.assert_close(ours[1:], theirs[1:].long())
        at_end = [k for k, at in enumerate(clip.asked_at) if at == len(clip.kept) - 1]
        if at_end and clip.kept[-1].any():
            first = int((batch.owner[0] == at_end[0]).nonzero()[0])
            ask = len(packer.question_ids(clip.questions[at_end[0]].text))
            start = batch.positions[0, 0, first - ask + 1]
            assert int(start) == scheme.end(sinks, next_rank + shift)


def test_nothing_sees_what_comes_later_and_questions_see_only_their_past():
    clips, rng = _clips(12, seed=3)
    assert any(clip.instant for clip in clips)
    batch = Packer(build_tokenizer()).pack(clips, rng)
    for k, clip in enumerate(clips):
        mask = batch.mask[k, 0]
        assert not mask.triu(1)[:-1].any() or mask.triu(1).sum() == 0
        slots = batch.frame_slot[k]
        base = sum(c.kept.size for c in clips[:k])
        frame_of = torch.where(slots >= 0, (slots - base) // 16, -1)
        for row in (batch.owner[k] >= 0).nonzero()[:, 0].tolist():
            at = clip.asked_at[int(batch.owner[k, row])]
            expected = (frame_of >= 0) & (frame_of <= at)
            assert torch.equal(mask[row] & (slots >= 0), expected)
        if clip.instant:
            newest = frame_of >= len(clip.kept) - clip.instant
            older = (frame_of >= 0) & ~newest
            assert not mask[newest][:, older].any()


def test_labels_name_the_thing_that_fills_a_patch():
    drive = Drive(4, 'calm', 60)
    checked = 0
    for index in range(60):
        colour, shape, side = cell_labels(drive.visible(index))
        shown = (colour != NO_THING) & (colour != IGNORED)
        names = {item.thing.colour for item in drive.visible(index)}
        assert {list(COLOURS)[c] for c in colour[shown]} <= names
        assert ((side != IGNORED) == shown).all()
        assert ((shape == IGNORED) == (colour == IGNORED)).all()
        checked += int(shown.sum())
    assert checked > 20


def test_training_lowers_its_loss_and_goes_on_from_a_checkpoint(tmp_path):
    torch.manual_seed(0)
    schedule = Schedule(patch_steps=6, frame_steps=1, clip_steps=1, frames_per_step=16)
    trainer = Trainer(schedule, 0, 1, tmp_path)
    rng = np.random.default_rng(0)
    before = trainer._loss(0, rng).item()
    trainer.run()
    assert trainer._loss(0, np.random.default_rng(0)).item() < before
    again = Trainer(schedule, 0, 1, tmp_path)
    again.run()
    for one, two in zip(trainer._model.parameters(), again._model.parameters(), strict=True):
        assert torch.equal(one, two)
    assert (tmp_path / 'model' / 'model.safetensors').exists()
