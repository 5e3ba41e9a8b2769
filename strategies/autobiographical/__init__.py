"""`Autobiographical`: an agent's own memories in place of old messages. Pure.

options.py     what can be chosen
state.py       what is folded
fold.py        events → state; chunks.py, memories.py and protection.py are its parts
plan.py        state → what to summarise next; keys.py, request.py
render.py      state → what goes into the window; recall.py
known.py       state → summaries to look through
strategy.py    all of it under one name
"""

from chronicle_py.strategies.autobiographical.options import Options
from chronicle_py.strategies.autobiographical.state import State
from chronicle_py.strategies.autobiographical.strategy import Autobiographical

__all__ = ["Autobiographical", "Options", "State"]
