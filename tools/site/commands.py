"""Every command of `msh`, from its own parser."""

from argparse import SUPPRESS, Action, ArgumentParser

from django.core.management import BaseCommand, get_commands, load_command_class

from tools.site.markdown import table

_GROUPS = {
    "msh.standalone": "Set up and run",
    "msh.management.inspection": "Look",
    "msh": "Act",
    "msh.statistics": "Statistics",
}
_HEAD = """\
# Commands

`msh` of the wheel and `manage.py` of a checkout are the same program. Every command names its MSH
by `--data FOLDER`, by `MSH_DATA`, or by the [settings](../settings.md) in the environment.
`msh COMMAND --help` prints what is on this page.
"""


def page() -> str:
    found = get_commands()
    parts = [_HEAD]
    for app, title in _GROUPS.items():
        names = sorted(name for name, of in found.items() if of == app)
        parts += [f"## {title}\n", *(_section(app, name) for name in names)]
    return "\n".join(parts)


def _section(app: str, name: str) -> str:
    command = load_command_class(app, name)
    parser = command.create_parser("msh", name)
    rows = [
        [_shown(action), _meaning(action)]
        for action in parser._actions
        if action.dest not in _OF_DJANGO and action.help != SUPPRESS
    ]
    options = table(["argument", "meaning"], rows) if rows else ""
    return f"### {name}\n\n{_usage(parser)}\n\n{_sentence(str(command.help))}\n\n{options}"


def _usage(parser: ArgumentParser) -> str:
    """With the arguments that are required."""
    words = [parser.prog]
    for action in parser._actions:
        if action.dest not in _OF_DJANGO and action.help != SUPPRESS:
            if action.option_strings and action.required:
                words.append(f"{action.option_strings[-1]} {_value(action)}")
            elif not action.option_strings:
                words.append(_value(action) if action.nargs != "?" else f"[{_value(action)}]")
    return f"`{' '.join(words)}`"


def _shown(action: Action) -> str:
    if not action.option_strings:
        return f"`{_value(action)}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _value(action: Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return action.dest.upper()


def _meaning(action: Action) -> str:
    help_text = (action.help or "") % (vars(action) | {"prog": "msh"})
    choices = f"one of {', '.join(map(str, action.choices))}" if action.choices else ""
    required = "required" if action.option_strings and action.required else ""
    return "; ".join(filter(None, [help_text, choices, required]))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if not text or text.endswith(".") else f"{text[0].upper()}{text[1:]}."


_OF_DJANGO = {action.dest for action in BaseCommand().create_parser("msh", "")._actions}
