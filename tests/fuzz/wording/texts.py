"""Texts of this test checkpoint. Only the string constants are read; nothing here is run."""
import json

dsml_token: str = "｜DSML｜"
thinking_start_token, thinking_end_token = "<think>", "</think>"

EXAMPLE = """<{dsml_token} calls>
<{dsml_token} invoke name="$NAME">
<{dsml_token} parameter name="$KEY" string="true|false">$VALUE</{dsml_token} parameter>
</{dsml_token} invoke>
</{dsml_token} calls>"""

TOOLS_TEMPLATE = (
    "## Tools\n\n"
    "These functions can be asked for, with blocks such as:\n\n" + EXAMPLE +
    "\n\nPlain text has string=\"true\"; everything else is JSON, such as {{\"a\": 1}}. "
    "Think between {thinking_start_token} and {thinking_end_token} first.\n\n"
    "### Functions\n\n"
    "{tool_schemas}\n\n"
    "Keep to them.\n"
)

response_format_template = "## Form of the answer\n\nOnly JSON of this form:\n{schema}"

tool_output_template = "<tool_result>{content}</tool_result>"


def render_tools(tools):
    return TOOLS_TEMPLATE.format(
        tool_schemas="\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools),
        dsml_token=dsml_token,
        thinking_start_token=thinking_start_token,
        thinking_end_token=thinking_end_token,
    )
