"""Summarizers: who turns a request of a strategy into the text of a summary.

`Summarizer` is the protocol; any function of a request will do, an async one too. `Extractive` needs no model and is
the default. `OpenAISummarizer` and `AnthropicSummarizer` ask a model; their SDKs come with the extras
`chronicle-py[openai]` and `chronicle-py[anthropic]`. How they are asked, with time limits and retries, is in `asking`.
"""

from chronicle_py.context.summarizers.anthropic_client import AnthropicSummarizer
from chronicle_py.context.summarizers.asking import Patience
from chronicle_py.context.summarizers.extractive import Extractive
from chronicle_py.context.summarizers.openai_client import OpenAISummarizer
from chronicle_py.context.summarizers.protocol import Summarizer, TransientFailure, summarizer

__all__ = [
    "AnthropicSummarizer",
    "Extractive",
    "OpenAISummarizer",
    "Patience",
    "Summarizer",
    "TransientFailure",
    "summarizer",
]
