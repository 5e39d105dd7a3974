"""Texts of this test checkpoint. Only the string constants are read; nothing here is run."""
import json
from typing import Dict

dsml_token: str = "｜DSML｜"
thinking_start_token, thinking_end_token = "<think>", "</think>"

tool_calls_block_name: str = "tool_calls"

CAREFUL = "Effort: high. Check each step before the next one.\n\n"

REASONING_EFFORT_PROMPTS: Dict[str, str] = {
    "low": "",
    "high": CAREFUL,
    "max": (
        "Effort: max. Check each step twice, "
        "and then the whole.\n\n"
    ),
}

TOOLS_TEMPLATE = """## Tools

These functions can be asked for, with blocks such as:

<{dsml_token}tool_calls>
<{dsml_token}invoke name="$NAME">
<{dsml_token}parameter name="$KEY" string="true|false">$VALUE</{dsml_token}parameter>
</{dsml_token}invoke>
</{dsml_token}tool_calls>

Think between {thinking_start_token} and {thinking_end_token} first.

{tool_schemas}

Keep to them.
"""

response_format_template: str = "## Form of the answer\n\nOnly JSON of this form:\n{schema}"

tool_output_template: str = "<tool_result>{content}</tool_result>"


def render_tools(tools):
    return TOOLS_TEMPLATE.format(
        tool_schemas="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools),
        dsml_token=dsml_token,
        thinking_start_token=thinking_start_token,
        thinking_end_token=thinking_end_token,
    )
