# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Questions about the demo world with their true answers.

Truth comes from what the frames show: a thing counts as seen when one frame shows at least
``SEEN_FRACTION`` of it. A thing that only ever stood at the edge of the view is left out of
every question, since its right answer would be a matter of taste.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from infinipot_ros.demo.rooms import VIEW_PX
from infinipot_ros.demo.things import COLOURS, SHAPES, Thing
from infinipot_ros.demo.world import Drive, SEEN_FRACTION, Visible
import numpy as np

HIDDEN_FRACTION = 0.08
NOT_SEEN = 'not seen'
NOTHING = 'nothing'
SIDES = ('left', 'middle', 'right')
MAX_LISTED = 3

# The first phrase of a family is the one that benchmarks use.
PHRASES: dict[str, tuple[str, ...]] = {
    'colour': ('what colour was the {shape} ?', 'what colour is the {shape} ?',
               'which colour was the {shape} you saw ?', 'what was the colour of the {shape} ?'),
    'shape': ('what shape was the {colour} thing ?', 'what was the {colour} thing ?',
              'which shape was the {colour} thing you saw ?'),
    'did': ('did you see {a_thing} ?', 'have you seen {a_thing} ?',
            'was there {a_thing} ?'),
    'now': ('is there {a_thing} now ?', 'do you see {a_thing} now ?',
            'is there {a_thing} in view now ?'),
    'see': ('what do you see now ?', 'what is there now ?', 'what is in view now ?'),
    'where': ('where is the {colour} {shape} now ?', 'on which side is the {colour} {shape} ?'),
    'first': ('which did you see first , the {first} or the {second} ?',),
}
FAMILIES: tuple[str, ...] = tuple(PHRASES)


@dataclass(frozen=True)
class Question:
    """
    A question, its true answer, and what it is about.

    ``kind`` refines the family: ``yes``, ``yes-shared`` (another thing shares its colour or
    shape), ``no``, ``no-recombined`` (both words were seen, not together), ``seen``, ``never``.
    """

    text: str
    answer: str
    family: str
    kind: str
    asked_at: int
    thing: Thing | None = None
    last_seen_at: int | None = None

    @property
    def age_frames(self) -> int | None:
        """Return how many frames ago the thing was last visible."""
        return None if self.last_seen_at is None else self.asked_at - self.last_seen_at


def is_right(question: Question, answer_text: str) -> bool:
    """Compare an answer with the truth, word for word after folding case and blanks."""
    return ' '.join(answer_text.lower().split()) == question.answer


def is_abstention(answer_text: str) -> bool:
    """Tell whether an answer says that it does not know, rather than inventing something."""
    return ' '.join(answer_text.lower().split()) in (NOT_SEEN, 'no', NOTHING)


def with_article(name: str) -> str:
    """Put 'a' or 'an' before a name."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


class Sightings:
    """What the frames up to now have shown: the basis of every true answer."""

    def __init__(self) -> None:
        """Begin before the first frame."""
        self.frames = 0
        self.now: list[Visible] = []
        self.first_seen: dict[Thing, int] = {}
        self.last_seen: dict[Thing, int] = {}
        self._glimpsed: set[Thing] = set()

    def add(self, visible: Sequence[Visible]) -> None:
        """Take note of the next frame."""
        index, self.frames = self.frames, self.frames + 1
        self.now = list(visible)
        for item in visible:
            if item.fraction >= SEEN_FRACTION:
                self.first_seen.setdefault(item.thing, index)
                self.last_seen[item.thing] = index
            elif item.fraction > HIDDEN_FRACTION:
                self._glimpsed.add(item.thing)

    @property
    def seen(self) -> list[Thing]:
        """Return the things seen so far."""
        return list(self.last_seen)

    @property
    def doubtful(self) -> list[Thing]:
        """Return the things of which only a part was ever in view."""
        return [thing for thing in self._glimpsed if thing not in self.last_seen]


def make_question(
    family: str, sightings: Sightings, rng: np.random.Generator, kind: str | None = None,
    phrase: int | None = 0,
) -> Question | None:
    """
    Make a question of one family about what has been seen, or ``None`` where none fits.

    :param kind: a refinement as in ``Question``; ``None`` draws one.
    :param phrase: index into ``PHRASES``; ``None`` draws one.
    """
    maker = _MAKERS[family]
    made = maker(sightings, rng, kind)
    if made is None:
        return None
    words, answer, kind, thing = made
    phrases = PHRASES[family]
    if 'colour' in words and 'shape' in words:
        words = {**words, 'a_thing': with_article(f"{words['colour']} {words['shape']}")}
    text = phrases[int(rng.integers(len(phrases))) if phrase is None else phrase].format(**words)
    last = None if thing is None else sightings.last_seen.get(thing)
    return Question(text, answer, family, kind, sightings.frames - 1, thing, last)


def make_questions(drive: Drive, frame_index: int, rng: np.random.Generator) -> list[Question]:
    """Make one question of every family that fits, asked after ``frame_index``."""
    sightings = Sightings()
    for index in range(frame_index + 1):
        sightings.add(drive.visible(index))
    made = (make_question(family, sightings, rng) for family in FAMILIES)
    return [question for question in made if question is not None]


_Made = tuple[dict[str, str], str, str, Thing | None]


def _pick(rng: np.random.Generator, items: Sequence[Thing]) -> Thing:
    return items[int(rng.integers(len(items)))]


def _colour(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    return _unique(s, rng, kind, SHAPES, 'shape', 'colour')


def _shape(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    return _unique(s, rng, kind, tuple(COLOURS), 'colour', 'shape')


def _unique(
    s: Sightings, rng: np.random.Generator, kind: str | None, words: Sequence[str], given: str,
    asked: str,
) -> _Made | None:
    """Ask for one attribute by the other, about the only seen thing that has it."""
    kind = kind or ('never' if rng.uniform() < 0.13 else 'seen')
    doubtful = {getattr(thing, given) for thing in s.doubtful}
    count = {word: [t for t in s.seen if getattr(t, given) == word] for word in words}
    if kind == 'never':
        free = [word for word in words if not count[word] and word not in doubtful]
        if not free:
            return None
        return {given: free[int(rng.integers(len(free)))]}, NOT_SEEN, kind, None
    single = [things[0] for word, things in count.items()
              if len(things) == 1 and word not in doubtful and not things[0].fixture]
    if not single:
        return None
    thing = _pick(rng, single)
    return {given: getattr(thing, given)}, getattr(thing, asked), kind, thing


def _did(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    return _yes_or_no(s, rng, kind, s.seen, s.doubtful)


def _now(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    there = [item.thing for item in s.now if item.fraction >= SEEN_FRACTION]
    edge = [item.thing for item in s.now if HIDDEN_FRACTION < item.fraction < SEEN_FRACTION]
    if kind is None and rng.uniform() < 0.3:
        gone = [t for t in s.seen if _free((t.colour, t.shape), there, edge)]
        if gone:
            thing = _pick(rng, gone)
            return {'colour': thing.colour, 'shape': thing.shape}, 'no', 'no-gone', thing
    return _yes_or_no(s, rng, kind, there, edge)


def _free(name: tuple[str, str], seen: Sequence[Thing], doubtful: Sequence[Thing]) -> bool:
    return all((t.colour, t.shape) != name for t in [*seen, *doubtful])


def _yes_or_no(
    s: Sightings, rng: np.random.Generator, kind: str | None, there: Sequence[Thing],
    doubtful: Sequence[Thing],
) -> _Made | None:
    if kind is None:
        draw = rng.uniform()
        kind = ('yes-shared' if draw < 0.25 else 'yes' if draw < 0.5
                else 'no-recombined' if draw < 0.82 else 'no')
    askable = [t for t in there if not t.fixture] or list(there)
    if kind.startswith('yes'):
        shared = [t for t in askable if any(
            o is not t and (o.colour, o.shape) != (t.colour, t.shape)
            and (o.colour == t.colour or o.shape == t.shape) for o in s.seen)]
        pool = shared if kind == 'yes-shared' else [t for t in askable if t not in shared]
        if not pool:
            return None
        thing = _pick(rng, pool)
        return {'colour': thing.colour, 'shape': thing.shape}, 'yes', kind, thing
    if kind == 'no-recombined':
        if len(there) < 2:
            return None
        name = (_pick(rng, there).colour, _pick(rng, there).shape)
    elif there and rng.uniform() < 0.5:
        known = _pick(rng, there)
        name = ((known.colour, SHAPES[int(rng.integers(len(SHAPES)))]) if rng.uniform() < 0.5
                else (list(COLOURS)[int(rng.integers(len(COLOURS)))], known.shape))
    else:
        name = (list(COLOURS)[int(rng.integers(len(COLOURS)))],
                SHAPES[int(rng.integers(len(SHAPES)))])
    if not _free(name, there, doubtful):
        return None
    return {'colour': name[0], 'shape': name[1]}, 'no', kind, None


def _see(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    if any(HIDDEN_FRACTION < item.fraction < SEEN_FRACTION for item in s.now):
        return None
    there = [item for item in s.now if item.fraction >= SEEN_FRACTION]
    if len(there) > MAX_LISTED or _too_close([item.centre_x for item in there]):
        return None
    text = ' and '.join(with_article(item.thing.name) for item in there) or NOTHING
    return {}, text, str(len(there)), there[0].thing if there else None


def _too_close(centres: list[float]) -> bool:
    return any(b - a < 6 for a, b in pairwise(centres))


def _where(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    there = [item for item in s.now if item.fraction >= SEEN_FRACTION]
    fit = []
    for item in there:
        third = item.centre_x / (VIEW_PX / 3)
        clear = all(abs(item.centre_x - edge) >= 4 for edge in (VIEW_PX / 3, 2 * VIEW_PX / 3))
        if clear and sum(o.thing.name == item.thing.name for o in s.now) == 1:
            fit.append((item.thing, SIDES[int(np.clip(third, 0, 2))]))
    if not fit:
        return None
    thing, side = fit[int(rng.integers(len(fit)))]
    return {'colour': thing.colour, 'shape': thing.shape}, side, side, thing


def _first(s: Sightings, rng: np.random.Generator, kind: str | None) -> _Made | None:
    if len(s.seen) < 2:
        return None
    pick = rng.permutation(len(s.seen))[:2]
    one, two = s.seen[int(pick[0])], s.seen[int(pick[1])]
    if abs(s.first_seen[one] - s.first_seen[two]) < 2 or one.name == two.name or any(
            sum(t.name == thing.name for t in s.seen) > 1 for thing in (one, two)):
        return None
    earlier = one if s.first_seen[one] < s.first_seen[two] else two
    return {'first': one.name, 'second': two.name}, f'the {earlier.name}', 'seen', earlier


_MAKERS: dict[
    str, Callable[[Sightings, np.random.Generator, str | None], _Made | None]
] = {'colour': _colour, 'shape': _shape, 'did': _did, 'now': _now, 'see': _see, 'where': _where,
     'first': _first}
