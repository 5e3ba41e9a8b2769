"""Summarizers: what they are, the extractive default, the clients against a server that speaks the wire format."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chronicle_py.context import AnthropicSummarizer, Extractive, OpenAISummarizer, Patience, TransientFailure
from chronicle_py.context.blocks import Block, Text, ToolResult, ToolUse
from chronicle_py.context.summarizers import Summarizer, summarizer
from chronicle_py.context.summarizers.asking import ask
from chronicle_py.context.tokens import tokenizer
from chronicle_py.errors import InvalidOperation, SummarizerFailed
from chronicle_py.strategies.strategy import Entry, Request, Work


def request(*said: tuple[str, Block | str], model: str = "", target: int = 200, level: int = 1) -> Request:
    entries = [
        Entry(who, "assistant" if who == "Claude" else "user", [Text(c) if isinstance(c, str) else c], 1, n, f"id{n}")
        for n, (who, c) in enumerate(said, 1)
    ]
    seqs = tuple(entry.seq or 0 for entry in entries)
    work = Work(
        key="k", level=level, sources=tuple(f"id{n}" for n in seqs), source_seqs=seqs, first="id1", last="id9",
        first_seq=1, last_seq=9,
    )  # fmt: skip
    return Request(
        work=work, system="You keep the memory.", entries=entries, instruction="Sum it up.", target_tokens=target,
        max_tokens=target * 3 // 2, model=model,
    )  # fmt: skip


TALK = request(
    ("User", "The parser fails on empty lines. Please look. I had tea."),
    ("Claude", ToolUse("t1", "grep", {"q": "empty"})),
    ("User", ToolResult("t1", "src/parser.py:12: if not line\nmore", is_error=False)),
    ("Claude", "The parser fails because line 12 returns early. I fixed the parser in src/parser.py. Sun is out."),
    ("User", "[LEAD] Somebody should look at the lexer."),
)


# --- what a summarizer is -------------------------------------------------------------------------------------------


def test_anything_that_answers_a_request_is_a_summarizer() -> None:
    assert summarizer(lambda request: "text").summarize(TALK) == "text"
    assert isinstance(summarizer(None), Extractive)
    own = Extractive()
    assert summarizer(own) is own
    assert isinstance(own, Summarizer)
    for wrong in (3, "openai", Extractive):
        with pytest.raises(InvalidOperation, match="summarize"):
            summarizer(wrong)  # type: ignore[arg-type]


# --- extractive -----------------------------------------------------------------------------------------------------


def test_it_picks_what_matters_names_the_tools_and_keeps_the_order() -> None:
    assert Extractive().summarize(TALK).split("\n") == [
        "- User: The parser fails on empty lines.",
        "- User: Please look.",
        "- User: I had tea.",
        '- Claude: used grep {"q":"empty"}',
        "- result: src/parser.py:12: if not line",
        "- Claude: The parser fails because line 12 returns early.",
        "- Claude: I fixed the parser in src/parser.py.",
        "- Claude: Sun is out.",
        "- User: [LEAD] Somebody should look at the lexer.",
    ]


def test_under_a_small_target_the_small_talk_goes_first() -> None:
    import msgspec

    text = Extractive().summarize(msgspec.structs.replace(TALK, target_tokens=60))
    assert tokenizer().count(text) <= 60
    assert "[LEAD]" in text
    assert "The parser fails because line 12 returns early." in text
    assert "tea" not in text
    assert "Sun" not in text


def test_it_is_deterministic_and_says_something_of_nothing() -> None:
    assert Extractive().summarize(TALK) == Extractive().summarize(TALK)
    assert Extractive().summarize(request()) == "(Nothing was said.)"
    long = Extractive().summarize(request(("User", "word " * 500), target=1))
    assert 0 < tokenizer().count(long) <= 40


def test_a_merge_is_made_of_the_summaries_alone() -> None:
    shown = [
        Entry("User", "user", [Text("[Recall L1-0]")], 1, summary="L1-0"),
        Entry("Claude", "assistant", [Text("- User: We chose the coast.")], 1, summary="L1-0"),
        Entry("Claude", "assistant", [Text("Shown along.")], 1, summary="L2-0"),
    ]
    work = Work(key="k", level=2, sources=("L1-0",), source_seqs=(), first="", last="", first_seq=1, last_seq=2)
    merge = Request(work=work, system="", entries=shown, instruction="", target_tokens=50, max_tokens=75)
    assert Extractive().summarize(merge) == "- User: We chose the coast."


def test_it_is_quick() -> None:
    lines = [("User", f"Sentence {n} tells of thing number {n * 7 % 13} and of its colour. " * 6) for n in range(60)]
    piece = request(*lines, target=2000)
    Extractive().summarize(piece)
    started = time.perf_counter()
    Extractive().summarize(piece)
    assert time.perf_counter() - started < 0.2


# --- a server -------------------------------------------------------------------------------------------------------

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


class Server:
    """Speaks HTTP and JSON; `answers` are used one after the other, the last one for ever."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.delay = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                time.sleep(outer.delay)
                status, answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with suppress(ConnectionError):  # some clients do not wait
                    self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def choice(content: str | None, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "logprobs": None,
             "message": {"role": "assistant", "content": content, "refusal": refusal}}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip


def message(*texts: str, stop: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": stop, "stop_sequence": None,
        "content": [{"type": "text", "text": text} for text in texts], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def openai_client(server: Server, **options: Any) -> OpenAISummarizer:
    return OpenAISummarizer("small", api_key="key", base_url=server.url + "/v1", **options)


def anthropic_client(server: Server, **options: Any) -> AnthropicSummarizer:
    return AnthropicSummarizer("small", api_key="key", base_url=server.url, **options)


# --- OpenAI ---------------------------------------------------------------------------------------------------------


def test_openai_is_asked_in_its_own_words(server: Server) -> None:
    server.answers = [(200, choice("They fixed the parser."))]
    assert openai_client(server).summarize(TALK) == "They fixed the parser."
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer key"
    assert (body["model"], body["max_completion_tokens"], body["temperature"]) == ("small", 300, 0.0)
    assert body["messages"][0] == {"role": "system", "content": "You keep the memory."}
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert body["messages"][-1]["content"] == "[LEAD] Somebody should look at the lexer.\n\nSum it up."


def test_a_compatible_server_may_want_the_older_name_of_the_limit(server: Server) -> None:
    import msgspec

    server.answers = [(200, choice("ok"))]
    openai_client(server, limit_field="max_tokens").summarize(msgspec.structs.replace(TALK, model="big"))
    assert (server.asked[0][2]["max_tokens"], server.asked[0][2]["model"]) == (300, "big")


@pytest.mark.parametrize(
    ("status", "answer", "transient"),
    [
        (429, {"error": {"message": "slow down"}}, True),
        (503, {"error": {"message": "busy"}}, True),
        (401, {"error": {"message": "no such key"}}, False),
        (400, {"error": {"message": "bad"}}, False),
        (200, choice(None, refusal="I will not."), False),
        (200, choice("…", finish="content_filter"), False),
        (200, {**choice("x"), "choices": []}, False),
    ],
)
def test_openai_failures(server: Server, status: int, answer: dict[str, Any], transient: bool) -> None:
    server.answers = [(status, answer)]
    with pytest.raises(SummarizerFailed) as found:
        openai_client(server).summarize(TALK)
    assert isinstance(found.value, TransientFailure) is transient
    assert len(server.asked) == 1


def test_openai_is_asked_again_by_the_runner_alone(server: Server) -> None:
    server.answers = [(500, {}), (429, {}), (200, choice("at last"))]
    assert ask(openai_client(server), TALK, Patience(timeout=5, attempts=3, first_wait=0.0)) == "at last"
    assert len(server.asked) == 3


REFUSED = {"type": "error", "error": {"type": "invalid_request_error", "message": "`temperature` is not supported"}}


def test_a_model_that_takes_no_temperature_is_asked_without(server: Server) -> None:
    server.answers = [(400, REFUSED), (200, choice("a")), (200, choice("b"))]
    client = openai_client(server)
    assert [client.summarize(TALK), client.summarize(TALK)] == ["a", "b"]
    assert [body.get("temperature") for _, _, body in server.asked] == [0.0, None, None]
    server.answers = [(400, REFUSED), (200, message("a")), (200, message("b"))]
    other = anthropic_client(server)
    assert [other.summarize(TALK), other.summarize(TALK)] == ["a", "b"]
    assert [body.get("temperature") for _, _, body in server.asked[3:]] == [0.0, None, None]


def test_a_server_that_is_not_there_or_too_slow_may_be_there_later(server: Server) -> None:
    server.delay, server.answers = 0.3, [(200, choice("late"))]
    with pytest.raises(TransientFailure):
        openai_client(server, timeout=0.05).summarize(TALK)
    with pytest.raises(TransientFailure):
        OpenAISummarizer(api_key="key", base_url="http://127.0.0.1:9").summarize(TALK)
    with pytest.raises(TransientFailure):
        AnthropicSummarizer(api_key="key", base_url="http://127.0.0.1:9").summarize(TALK)


# --- Anthropic ------------------------------------------------------------------------------------------------------


def test_anthropic_is_asked_in_its_own_words(server: Server) -> None:
    server.answers = [(200, message("They fixed", "the parser."))]
    assert anthropic_client(server).summarize(TALK) == "They fixed\nthe parser."
    path, headers, body = server.asked[0]
    assert path == "/v1/messages"
    assert any(value.removeprefix("Bearer ") == "key" for value in headers.values())
    assert (body["model"], body["max_tokens"], body["system"]) == ("small", 300, "You keep the memory.")
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert body["messages"][-1]["content"][-1] == {"type": "text", "text": "Sum it up."}


@pytest.mark.parametrize(
    ("status", "answer", "transient"),
    [
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}, True),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, True),
        (401, {"type": "error", "error": {"type": "authentication_error", "message": "no such key"}}, False),
        (200, message("no", stop="refusal"), False),
    ],
)
def test_anthropic_failures(server: Server, status: int, answer: dict[str, Any], transient: bool) -> None:
    server.answers = [(status, answer)]
    with pytest.raises(SummarizerFailed) as found:
        anthropic_client(server).summarize(TALK)
    assert isinstance(found.value, TransientFailure) is transient
    assert len(server.asked) == 1


def test_a_client_without_a_key_is_refused_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidOperation, match="cannot be set up"):
        OpenAISummarizer()
    with pytest.raises(InvalidOperation, match="cannot be set up"):
        OpenAISummarizer(nonsense=1)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(InvalidOperation, match=r"chronicle-py\[openai\]"):
        OpenAISummarizer(api_key="key")
    with pytest.raises(InvalidOperation, match=r"chronicle-py\[anthropic\]"):
        AnthropicSummarizer(api_key="key")
