"""`OpenAISummarizer`: a model behind OpenAI's Chat Completions API, or any server that speaks like it."""

from __future__ import annotations

from typing import Any

from chronicle_py.context.summarizers.prompt import compiled
from chronicle_py.context.summarizers.protocol import TransientFailure
from chronicle_py.errors import InvalidOperation, SummarizerFailed
from chronicle_py.strategies.strategy import Request

_TRANSIENT = (408, 409, 425, 429)


class OpenAISummarizer:
    """Asks a model. Options not named here (`api_key`, `base_url`, `timeout`, …) go to `openai.OpenAI`.

    `model` is used where the request names none. `limit_field`: how the limit of tokens is called,
    "max_completion_tokens", or "max_tokens" for servers that know only this one. Needs `chronicle-py[openai]`.
    """

    def __init__(
        self,
        model: str = "gpt-4o-mini",
        *,
        client: Any = None,
        limit_field: str = "max_completion_tokens",
        **options: Any,
    ) -> None:
        self.model = model
        self._limit_field = limit_field
        if client is None:
            try:
                import openai
            except ImportError as error:
                raise InvalidOperation(
                    "OpenAISummarizer needs the package openai: pip install 'chronicle-py[openai]'"
                ) from error
            try:
                client = openai.OpenAI(**{"max_retries": 0, **options})
            except (openai.OpenAIError, TypeError) as error:
                raise InvalidOperation(f"OpenAISummarizer cannot be set up: {error}") from error
        self._client = client
        self._without_temperature: set[str] = set()  # models

    def __repr__(self) -> str:
        return f"<OpenAISummarizer {self.model!r}>"

    def summarize(self, request: Request) -> str:
        """The model's answer. SummarizerFailed when it fails or refuses, TransientFailure where that may pass."""
        import openai

        fields = {
            "model": request.model or self.model,
            "messages": compiled(request).to_openai(),
            self._limit_field: request.max_tokens,
        }
        try:
            found = self._created(fields, request.temperature)
        except openai.APIStatusError as error:
            kind = TransientFailure if error.status_code in _TRANSIENT or error.status_code >= 500 else SummarizerFailed
            raise kind(f"the model's server answered with {error.status_code}: {error.message}") from error
        except openai.APIConnectionError as error:  # time limits are connection errors too
            raise TransientFailure(f"the model's server cannot be reached: {error}") from error
        except openai.OpenAIError as error:
            raise SummarizerFailed(f"asking the model failed: {error}") from error
        choices = getattr(found, "choices", None)
        if not choices:
            raise SummarizerFailed("the model's server answered without any choice")
        message = choices[0].message
        if getattr(message, "refusal", None):
            raise SummarizerFailed(f"the model refused: {message.refusal}")
        if choices[0].finish_reason == "content_filter":
            raise SummarizerFailed("the model's answer was held back by its content filter")
        return str(message.content or "")

    def _created(self, fields: dict[str, Any], temperature: float) -> Any:
        """The server's answer; without a temperature from models that refuse one."""
        import openai

        create = self._client.chat.completions.create
        model = fields["model"]
        if model not in self._without_temperature:
            try:
                return create(**fields, temperature=temperature)
            except openai.BadRequestError as error:
                if "temperature" not in str(error):
                    raise
                self._without_temperature.add(model)
        return create(**fields)
