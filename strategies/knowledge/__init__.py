"""`Knowledge`: `Autobiographical` with phases of work. Pure.

phases.py      which phase a tool belongs to
options.py     what can be chosen beside the options of Autobiographical; prompts
strategy.py    what differs from Autobiographical
"""

from chronicle_py.strategies.knowledge.options import KnowledgeOptions
from chronicle_py.strategies.knowledge.strategy import Knowledge

__all__ = ["Knowledge", "KnowledgeOptions"]
