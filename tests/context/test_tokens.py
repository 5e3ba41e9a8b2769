"""Counting tokens: offline, and what each block counts."""

from __future__ import annotations

import socket
from hashlib import sha256
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle_py.context import tokens
from chronicle_py.context.blocks import parse
from chronicle_py.context.tokens import Tokenizer, count_blocks, tokenizer
from chronicle_py.errors import InvalidOperation

WORDS = Tokenizer("words", lambda text: len(text.split()))


def counted(content: object) -> tuple[int, int]:
    return count_blocks(parse(content), WORDS)


def test_the_ranks_are_those_of_cl100k_base() -> None:
    data = files("chronicle_py.context").joinpath("data/cl100k_base.tiktoken").read_bytes()
    assert sha256(data).hexdigest() == "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def test_the_default_counts_without_network_or_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    fresh = tokens._Offline()
    assert fresh("hello world") == 2
    assert fresh("tiktoken is great!") == 6
    assert fresh("antidisestablishmentarianism") == 6
    assert fresh("2 + 2 = 4") == 7
    assert fresh("お誕生日おめでとう") == 9
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_no_name_means_cl100k_base() -> None:
    assert tokenizer() is tokenizer(None) is tokenizer("cl100k_base")
    assert tokenizer().name == "cl100k_base"


def test_text_that_looks_like_a_special_token_counts_as_text() -> None:
    assert tokenizer().count("<|endoftext|>") == 7


def test_text_with_a_lone_surrogate_is_counted() -> None:
    assert tokenizer().count("a\ud800b") > 0


def test_a_function_is_a_tokenizer() -> None:
    def characters(text: str) -> int:
        return len(text)

    assert tokenizer(characters).count("four") == 4
    assert tokenizer(characters).name.endswith("characters")
    assert tokenizer(len).name == "len"
    assert tokenizer(WORDS) is WORDS


def test_an_unknown_encoding_names_those_there_are() -> None:
    with pytest.raises(InvalidOperation, match=r"no encoding 'klingon'; it has .*o200k_base"):
        tokenizer("klingon")


def test_a_tokenizer_is_a_name_or_a_function() -> None:
    with pytest.raises(InvalidOperation, match="not 5"):
        tokenizer(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, -1, 1.5, "3"])
def test_a_function_that_returns_no_count_is_named(wrong: object) -> None:
    with pytest.raises(InvalidOperation, match="'odd' returned"):
        Tokenizer("odd", lambda text: wrong).count("x")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "text", "text": "one two three"}, (3, 3)),
        ({"type": "thinking", "thinking": "one two"}, (2, 2)),
        ({"type": "tool_use", "id": "t", "name": "grep", "input": {"q": "a b", "n": [1, 2]}}, (22, 22)),
        ({"type": "tool_result", "tool_use_id": "t", "content": "one two"}, (2, 2)),
        ({"type": "image", "source": {"type": "url", "url": "u"}}, (1000, 0)),
        ({"type": "image", "source": {"type": "url", "url": "u"}, "token_estimate": 258}, (258, 0)),
        ({"type": "image", "source": {"type": "url", "url": "u"}, "tokenEstimate": 0}, (0, 0)),
        ({"type": "image", "source": {"type": "url", "url": "u"}, "token_estimate": "many"}, (1000, 0)),
        ({"type": "audio", "source": {"type": "url", "url": "u"}, "token_estimate": 5}, (1000, 0)),
        ({"type": "video", "source": {"type": "url", "url": "u"}}, (1000, 0)),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ""}}, (1000, 0)),
        ({"type": "document", "source": {"type": "text", "data": "one two"}}, (2, 2)),
        (
            {
                "type": "document",
                "source": {
                    "type": "content",
                    "content": [{"type": "text", "text": "a b"}, {"type": "image", "source": {}}],
                },
            },
            (1002, 2),
        ),
        ({"type": "odd", "text": "a b c"}, (3, 3)),
    ],
)
def test_what_a_block_counts(block: dict[str, Any], expected: tuple[int, int]) -> None:
    assert counted([block]) == expected


def test_a_tool_result_counts_its_text_and_its_media() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "one two"}, {"type": "image", "source": {"type": "url", "url": "u"}}],
    }
    assert counted([{"type": "text", "text": "see"}, result]) == (1003, 3)


def test_no_blocks_are_no_tokens() -> None:
    assert counted([]) == (0, 0)


def test_an_input_that_json_cannot_hold_still_counts() -> None:
    assert counted([{"type": "tool_use", "id": "t", "name": "n", "input": {1: b"x", "y": object}}])[0] >= 21


@given(st.text(), st.text())
def test_counts_are_those_of_the_parts(a: str, b: str) -> None:
    both = parse([a, b])
    assert count_blocks(both, tokenizer())[0] == tokenizer().count(a) + tokenizer().count(b)
