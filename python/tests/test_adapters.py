"""The adapters with the real libraries; only the model behind them is a stub."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from typing import Any

import anthropic
import httpx2 as httpx
import pytest
import pytest_asyncio
from agents import Agent as OpenAIAgent
from agents import Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse as AiResponse
from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

import scomp
from scomp.adapters import code_tool
from scomp.adapters.anthropic import tool as anthropic_tool
from scomp.adapters.code_tool import render
from scomp.adapters.langchain import tool as langchain_tool
from scomp.adapters.openai_agents import tool as openai_tool
from scomp.adapters.pydantic_ai import toolset
from support.server import TestServer

ORDER = "const o = await getOrder({ id: 'o_001' }); console.warn('found'); o.total"
BROKEN = "getOrdr()"
FOUND = "[warn] found\n142.5"


@pytest_asyncio.fixture
async def client(server: TestServer) -> AsyncIterator[scomp.Client]:
    async with scomp.Client(server.url) as connected:
        yield connected


async def test_tool_runs_code_and_reports_failures(client: scomp.Client) -> None:
    tool = await code_tool(client, result_chars_max=200)
    assert tool.name == "run_javascript" and "function getOrder" in tool.description
    assert (await tool.run(ORDER)).text == FOUND
    failed = await tool.run(BROKEN)
    assert failed.is_error and "getOrdr is not defined" in failed.text and "getOrder" in failed.text
    assert (await tool.run(None)).is_error and (await tool.run_arguments("{")).is_error
    assert (await tool.run_arguments('{"code": "6 * 7"}')).text == "42"
    assert len((await tool.run("'x'.repeat(200)")).text) == 200
    assert "cut at 200 of 201" in (await tool.run("'x'.repeat(201)")).text


async def test_tool_raises_what_is_not_the_scripts_fault(server: TestServer) -> None:
    async with scomp.Client(server.url) as client:
        tool = await code_tool(client, description="Runs code.")
    with pytest.raises(scomp.Closed):
        await tool.run("1")


def test_values_without_json_have_a_text() -> None:
    value = [2**60, datetime(2026, 1, 1, tzinfo=timezone.utc), {"a": {float("nan")}}, b"abc", render]
    expected = ["1152921504606846976n", "2026-01-01T00:00:00+00:00", {"a": ["nan"]}, "[3 bytes]", "[function render]"]
    assert json.loads(render(value)) == expected
    assert (render("a\nb"), render(scomp.UNDEFINED)) == ("a\nb", "undefined")


async def test_pydantic_ai_agent_runs_code(client: scomp.Client) -> None:
    seen: list[str] = []

    def model(messages: list[Any], info: Any) -> AiResponse:
        assert "getOrder" in info.function_tools[0].description
        results = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        seen[:] = results
        if len(results) < 2:
            return AiResponse([ToolCallPart("run_javascript", {"code": [ORDER, BROKEN][len(results)]})])
        return AiResponse([TextPart("It is 142.5.")])

    agent = Agent(FunctionModel(model), toolsets=[await toolset(client)])
    assert (await agent.run("What is the total?")).output == "It is 142.5."
    assert seen[0] == FOUND and "getOrdr is not defined" in seen[1]


async def test_langchain_tool_runs_code(client: scomp.Client) -> None:
    tool = await langchain_tool(client)
    assert tool.tool_call_schema and "code" in tool.args
    call = {"type": "tool_call", "name": tool.name, "id": "c1"}
    good = await tool.ainvoke({**call, "args": {"code": ORDER}})
    assert (good.content, good.status, good.tool_call_id) == (FOUND, "success", "c1")
    bad = await tool.ainvoke({**call, "args": {"code": BROKEN}})
    assert bad.status == "error" and "getOrdr is not defined" in bad.content


class StubModel(Model):
    """Calls the tool with each code, then answers with what it got."""

    def __init__(self, codes: list[str]) -> None:
        self.codes = codes
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.inputs.append(input)
        if self.codes:
            arguments = json.dumps({"code": self.codes.pop(0)})
            call = ResponseFunctionToolCall(
                type="function_call", call_id=f"c{len(self.codes)}", name="run_javascript", arguments=arguments
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(type="output_text", text="It is 142.5.", annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


async def test_openai_agent_runs_code(client: scomp.Client) -> None:
    model = StubModel([ORDER, BROKEN])
    agent = OpenAIAgent(name="orders", model=model, tools=[await openai_tool(client)])
    result = await Runner.run(agent, "What is the total?", run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "It is 142.5."
    outputs = [item["output"] for item in model.inputs[-1] if item.get("type") == "function_call_output"]
    assert outputs[0] == FOUND and "getOrdr is not defined" in outputs[1]


async def test_anthropic_tool_use_is_answered_with_a_block(client: scomp.Client) -> None:
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        uses = [
            {"type": "tool_use", "id": f"u{number}", "name": "run_javascript", "input": {"code": code}}
            for number, code in enumerate([ORDER, BROKEN])
        ]
        message = {"id": "m", "type": "message", "role": "assistant", "model": "stub", "content": uses}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return httpx.Response(200, json={**message, "stop_reason": "tool_use", "stop_sequence": None, "usage": usage})

    tool = await anthropic_tool(client)
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        model = anthropic.AsyncAnthropic(api_key="none", http_client=http)
        question: Any = {"role": "user", "content": "What is the total?"}
        message = await model.messages.create(
            model="stub", max_tokens=100, messages=[question], tools=[tool.definition]
        )
    assert sent[0]["tools"][0]["input_schema"]["required"] == ["code"]
    good, bad = [await tool.call(block) for block in message.content if block.type == "tool_use"]
    assert good == {"type": "tool_result", "tool_use_id": "u0", "content": FOUND, "is_error": False}
    assert bad["is_error"] is True
