"""The figure of counting tokens, beside tiktoken itself on the same texts."""

from __future__ import annotations

import tiktoken

from bench.conversation import spoken
from bench.figure import Measured, figure
from bench.measure import alternate, seconds
from bench.stores import Session
from chronicle_py.context import tokens


@figure("count the tokens of texts", "tokens/s")
def count(session: Session) -> Measured:
    texts = [text for _, text in spoken(100)]
    ours = tokens.tokenizer()
    plain = tiktoken.Encoding(
        "plain", pat_str=tokens._PATTERN, mergeable_ranks=tokens._ranks(), special_tokens=tokens._SPECIAL
    )
    total = sum(ours.count(text) for text in texts)
    mine, others = alternate(
        session.pick(11, 5),
        lambda _: [seconds(lambda: [ours.count(text) for text in texts])],
        lambda _: [seconds(lambda: [len(plain.encode_ordinary(text)) for text in texts])],
    )
    return Measured.rate(mine, total, others, "tiktoken's encode_ordinary", f"{len(texts)} texts, {total:,} tokens")
