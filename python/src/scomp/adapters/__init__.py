"""The session as a tool of a model, in the form that each library expects.

`code_tool` is the tool itself; `scomp.adapters.pydantic_ai`, `langchain`, `openai_agents` and `anthropic` wrap it. Each
needs its library: `pip install 'scomp[pydantic-ai]'`, `scomp[langchain]`, `scomp[openai-agents]`, `scomp[anthropic]`.
"""

from .code_tool import CodeResult, CodeTool, code_tool

__all__ = ["CodeResult", "CodeTool", "code_tool"]
