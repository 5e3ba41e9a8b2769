"""Windows of tokens over a transcript, and eviction in steps. Pure.

Windows take whole pairs. Where messages must give way, the first one shown moves in steps: it begins at the first pair
at or behind a multiple of the step, counted in tokens from the beginning of the conversation. These places do not
depend on what comes after them, so that what is shown keeps its beginning, and with it the provider's prompt cache,
until a whole step has come in. Everything here costs O(log n + length of a pair).
"""

from __future__ import annotations

from chronicle_py.strategies.transcript import Transcript


def recent_start(transcript: Transcript, tokens: int) -> int:
    """The index at which the last `tokens` tokens begin. The newest message with its pair is always among them."""
    return min(_pair_at(transcript, transcript.total() - tokens), transcript.newest())


def head_end(transcript: Transcript, start: int, tokens: int) -> int:
    """The index after the first `tokens` tokens from an index on."""
    if tokens <= 0 or start >= len(transcript):
        return start
    end = transcript.rows.find(transcript.offset(start) + tokens)
    return max(start, transcript.unit_start(end)) if end < len(transcript) else end


def step_of(window: int, room: int) -> int:
    """The step in tokens for what has `room` tokens: a quarter of the window, or, where the room is much smaller, that
    halved as often as needed. So the step stays the same while the room changes a little from turn to turn."""
    step = window // 4
    while step * 3 > room and step > 1:
        step //= 2
    return max(1, step)


def stepped(transcript: Transcript, start: int, step: int) -> int:
    """Where to begin, at `start` or behind it, so that the beginning moves in steps of that many tokens."""
    offset = transcript.offset(start)
    if not offset:
        return start
    anchor = -(-offset // step) * step
    if _pair_at(transcript, anchor - step) == start:
        return start
    return max(start, min(_pair_at(transcript, anchor), transcript.newest()))


def _pair_at(transcript: Transcript, offset: int) -> int:
    """The first index with at least `offset` tokens before it, at which a pair begins."""
    if offset <= 0:
        return 0
    return transcript.unit_from(min(transcript.rows.find(offset - 1) + 1, len(transcript)))
