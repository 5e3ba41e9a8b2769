"""`AnthropicSummarizer`: a model behind Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from chronicle_py.context.summarizers.prompt import compiled
from chronicle_py.context.summarizers.protocol import TransientFailure
from chronicle_py.errors import InvalidOperation, SummarizerFailed
from chronicle_py.strategies.strategy import Request

_TRANSIENT = (408, 409, 425, 429)


class AnthropicSummarizer:
    """Asks a model. Options not named here (`api_key`, `base_url`, `timeout`, …) go to `anthropic.Anthropic`.

    `model` is used where the request names none. Needs `chronicle-py[anthropic]`.
    """

    def __init__(self, model: str = "claude-haiku-4-5", *, client: Any = None, **options: Any) -> None:
        self.model = model
        if client is None:
            try:
                import anthropic
            except ImportError as error:
                raise InvalidOperation(
                    "AnthropicSummarizer needs the package anthropic: pip install 'chronicle-py[anthropic]'"
                ) from error
            try:
                client = anthropic.Anthropic(**{"max_retries": 0, **options})
            except (anthropic.AnthropicError, TypeError) as error:
                raise InvalidOperation(f"AnthropicSummarizer cannot be set up: {error}") from error
        self._client = client
        self._without_temperature: set[str] = set()  # models

    def __repr__(self) -> str:
        return f"<AnthropicSummarizer {self.model!r}>"

    def summarize(self, request: Request) -> str:
        """The model's answer. SummarizerFailed when it fails or refuses, TransientFailure where that may pass."""
        import anthropic

        sent = compiled(request).to_anthropic()
        if not sent["system"]:
            del sent["system"]
        fields = {"model": request.model or self.model, "max_tokens": request.max_tokens, **sent}
        try:
            found = self._created(fields, request.temperature)
        except anthropic.APIStatusError as error:
            kind = TransientFailure if error.status_code in _TRANSIENT or error.status_code >= 500 else SummarizerFailed
            raise kind(f"the model's server answered with {error.status_code}: {error.message}") from error
        except anthropic.APIConnectionError as error:  # time limits are connection errors too
            raise TransientFailure(f"the model's server cannot be reached: {error}") from error
        except anthropic.AnthropicError as error:
            raise SummarizerFailed(f"asking the model failed: {error}") from error
        if found.stop_reason == "refusal":
            raise SummarizerFailed("the model refused")
        return "\n".join(block.text for block in found.content if block.type == "text")

    def _created(self, fields: dict[str, Any], temperature: float) -> Any:
        """The server's answer; without a temperature from models that refuse one, as newer ones do."""
        import anthropic

        create = self._client.messages.create
        model = fields["model"]
        if model not in self._without_temperature:
            try:  # newer SDKs do not name the field
                return create(**fields, extra_body={"temperature": temperature})
            except anthropic.BadRequestError as error:
                if "temperature" not in str(error):
                    raise
                self._without_temperature.add(model)
        return create(**fields)
