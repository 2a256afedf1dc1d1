"""Groups of settings: declaration, layers, validation.

A group is an immutable pydantic model that rejects unknown keys. Values come from layers, later ones win: defaults, a
TOML file, dotted overrides (``--set search.rollouts=64``), command-line options. An error names the file or override,
the key, the reason and the nearest valid key. Imports nothing heavy.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Tag, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from rstar.errors import ConfigError

S = TypeVar("S", bound="Section")
Tree = dict[str, Any]
"""Nested plain data, as parsed from TOML."""


class Section(BaseModel):
    """A group of settings: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _reject_other_types(cls, value: Any, field: ValidationInfo) -> Any:
        """Reject booleans where numbers or text are expected (pydantic takes them as 0 and 1), and text for numbers."""
        kind = cls.model_fields[field.field_name or ""].annotation
        kinds = {kind, *get_args(kind)} - {type(None)}
        values = value if isinstance(value, list) else [value]
        if any(isinstance(item, bool) for item in values) and bool not in kinds:
            raise ValueError("expected a number or text, not true/false")
        if isinstance(value, str) and kinds <= {int, float}:
            raise ValueError(f"expected {'an integer' if kinds == {int} else 'a number'}")
        return value


_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
"""Credentials in a URL; messages do not repeat them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in a tree of groups.

    Attributes:
        key: dotted.
        field: its type, default and description.
        variants: search methods that have the setting; empty: all.
    """

    key: str
    field: FieldInfo
    variants: tuple[str, ...] = ()


def settings_of(kind: type[Section], whole: Sequence[type[Section]] = ()) -> list[Setting]:
    """All settings below a group, in order. Elements of a list of groups share the group's keys.

    Args:
        kind: a group of settings.
        whole: nested groups that count as one setting each.
    """
    settings: dict[tuple[str, str | None], Setting] = {}
    for setting in _settings(kind, whole, "", ()):
        identity = setting.key, setting.field.description
        earlier = settings[identity].variants if identity in settings else ()
        settings[identity] = replace(setting, variants=earlier + setting.variants)
    every = {tag for setting in settings.values() for tag in setting.variants}
    return [replace(each, variants=()) if set(each.variants) == every else each for each in settings.values()]


def _settings(
    kind: type[Section], whole: Sequence[type[Section]], prefix: str, variants: tuple[str, ...]
) -> Iterator[Setting]:
    for name, field in kind.model_fields.items():
        key = prefix + (field.alias or name)
        groups = _groups(field)
        if not groups or any(group in whole for group in groups.values()):
            yield Setting(key, field, variants)
            continue
        default = field.get_default(call_default_factory=True)
        for tag, group in sorted(
            groups.items(), key=lambda one: type(default) is one[1]
        ):  # the last one's values count
            yield from _settings(group, whole, f"{key}.", (tag,) if tag else variants)


def _groups(field: FieldInfo) -> dict[str, type[Section]]:
    """The groups that a field may hold, by tag: none, one without a tag, or the variants of a tagged union."""
    found: dict[str, type[Section]] = {}
    for part in (field.annotation, *get_args(field.annotation)):
        kind, *notes = get_args(part) if hasattr(part, "__metadata__") else (part,)
        if isinstance(kind, type) and issubclass(kind, Section):
            found[next((note.tag for note in notes if isinstance(note, Tag)), "")] = kind
    return found


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Tree:
    """Flatten nested mappings to dotted keys, in order."""
    flat: Tree = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """`over` merged into `base`: tables by key, lists of tables by index; any other value replaces."""
    return dict(base) | {key: _merge(base[key], value) if key in base else value for key, value in over.items()}


def _merge(base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return merged(base, over)
    tables = [base, over] if isinstance(base, list) and isinstance(over, list) else []
    if tables and all(isinstance(one, Mapping) for table in tables for one in table):
        return [merged(one, other) for one, other in zip(base, over, strict=False)]
    return over


def override(tree: Tree, overrides: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
    """Change settings in nested plain data.

    Args:
        tree: is changed.
        overrides: ``key.path=value``; a value that is not TOML is text.
        options: then, dotted key → value; None values are skipped.

    Raises:
        ConfigError: names the override that is not ``KEY=VALUE``, or whose key leads through a value.
    """
    settings: list[tuple[str, str, Any]] = []
    for assignment in overrides:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {assignment!r}: expected KEY=VALUE, for example search.rollouts=64")
        settings.append((f"--set {assignment!r}", key.strip(), _value(text)))
    settings += [("option", key, value) for key, value in (options or {}).items() if value is not None]
    for where, key, value in settings:
        *parents, last = key.split(".")
        group = tree
        for parent in parents:
            group = group.setdefault(parent, {})
            if not isinstance(group, dict):
                raise ConfigError(f"{where}: {parent!r} is a value, not a group of settings")
        group[last] = value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(file: Path) -> Tree:
    """Parse a TOML file. Raises `ConfigError` that names the file and the reason."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error


def read_recipe(kind: type[S], file: Path, smoke: bool = False, overrides: Sequence[str] = ()) -> S:
    """Read the settings of a recipe from a TOML file.

    Args:
        kind: the settings.
        file: the recipe. Its paths are relative to the working directory.
        smoke: apply the recipe's table ``smoke``: a small run that tests every stage. ``false`` in it removes a table.
        overrides: applied last, see `override`.

    Raises:
        ConfigError: the file cannot be read, or has bad keys; names all of them.
    """
    tree = read_toml(file)
    small = tree.pop("smoke", None)
    if smoke:
        if not isinstance(small, dict):
            raise ConfigError(f"{file}: the table [smoke] is missing")
        tree = {key: value for key, value in merged(tree, small).items() if small.get(key) is not False}
    override(tree, overrides)
    return checked(kind, tree, str(file))


def checked(kind: type[S], tree: Mapping[str, Any], where: str) -> S:
    """Validate nested plain data as a group of settings. Raises `ConfigError` with `where` and every bad key."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        lines = (f"{where}: {_explain(item, kind)}" for item in error.errors())
        raise ConfigError(_CREDENTIALS.sub("…@", "\n".join(lines))) from error


_MESSAGES = {
    "missing": "missing",
    "int_type": "expected an integer",
    "int_parsing": "expected an integer",
    "int_from_float": "expected an integer",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected text",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "path_type": "expected a path",
    "greater_than": "expected more than {gt:g}",
    "greater_than_equal": "expected at least {ge:g}",
    "less_than": "expected less than {lt:g}",
    "less_than_equal": "expected at most {le:g}",
    "too_short": "expected at least {min_length} element(s)",
}
"""What to say instead of the library's message, by type of error."""


def _explain(item: Any, kind: type[Section]) -> str:
    parts, variant = _place(kind, item["loc"])
    key = ".".join(part for part in parts if isinstance(part, str))
    shown = re.sub(r"\.(\d+)", lambda place: f" {int(place[1]) + 1}", ".".join(map(str, parts)))  # counted from 1
    if item["type"] == "extra_forbidden":
        return _explain_unknown(key, shown, variant, settings_of(kind))
    context = item.get("ctx", {})
    if item["type"] in _MESSAGES:
        message = _MESSAGES[item["type"]].format(**context)
    else:
        message = item["msg"].removeprefix("Value error, ")
    value = item["input"]
    if item["type"] in ("model_type", "model_attributes_type", "dict_type", "union_tag_not_found"):
        settings_below = [setting.key for setting in settings_of(kind) if setting.key.startswith(f"{key}.")]
        message = f"expected a group of settings, such as {settings_below[0]}" if settings_below else message
    if item["type"] in ("literal_error", "union_tag_invalid"):
        choices = re.findall(r"'([^']*)'", context.get("expected") or context["expected_tags"])
        message = f"expected one of {', '.join(choices)}"
        if "tag" in context:
            shown, value = f"{shown}.method", context["tag"]
        if near := difflib.get_close_matches(str(value), choices, n=1):
            message += f"; did you mean {near[0]!r}?"
    if not shown or item["type"] == "missing":
        return f"{shown}: {message}" if shown else message
    return f"{shown} = {value!r}: {message}"


def _explain_unknown(key: str, shown: str, variant: str, known: Sequence[Setting]) -> str:
    """Why a key is rejected: it belongs to another method, or to none."""
    if owners := [tag for setting in known if setting.key == key for tag in setting.variants]:
        return f"{shown} is a setting of {', '.join(owners)}; the method here is {variant}"
    keys = [setting.key for setting in known if not setting.variants or variant in setting.variants or not variant]
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5) or [
        full for full in keys if full.rpartition(".")[2] == key.rpartition(".")[2]
    ]
    return f"unknown key {shown!r}" + (f", did you mean {near[0]!r}?" if near else "")


def _place(kind: type[Section], place: Sequence[str | int]) -> tuple[list[str | int], str]:
    """The path to an error without union tags, and the tag of the variant that contains it."""
    parts: list[str | int] = []
    groups: dict[str, type[Section]] = {"": kind}
    variant = ""
    for part in place:
        if len(groups) > 1 and part in groups:
            variant = str(part)
            groups = {"": groups[variant]}
            continue
        parts.append(part)
        if isinstance(part, str) and len(groups) == 1:
            fields = groups.popitem()[1].model_fields
            field = fields.get(part) or next((one for one in fields.values() if one.alias == part), None)
            groups = {} if field is None else _groups(field)
    return parts, variant
