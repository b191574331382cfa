"""Which functions of ours call which, read from the syntax trees. Nothing is run.

A name is followed through imports to what it stands for. An expression has a type as far as it is
written down: an annotation of a parameter, an attribute or a result, a call of a class. A method is
found by the type of what it is called on, in its class or a base class. What has no type is lost:
attributes of Django's rows, entries of tables, callbacks whose callee only has `Callable`. A
function that is named without being called, as an argument, counts as called.

Not followed: handlers of exceptions, branches that end in `raise`, what is only there for type
checkers, and traces (`recorder`).
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.source import Module, imported

Function = ast.FunctionDef | ast.AsyncFunctionDef
PROPERTIES = frozenset({"property", "cached_property"})
PASSING = frozenset(
    {"iter", "list", "tuple", "set", "frozenset", "sorted", "reversed", "replace", "partial"}
)
CHOOSING = frozenset({"next", "min", "max"})
INSIDE = "msh.wire."
"""What is in here is not followed: a call from outside is one function."""
CALLED: Mapping[str, Sequence[str]] = {
    "class": ("__new__", "__init__", "__post_init__"),
    "instance": ("__call__",),
}
"""The methods that a call of a class, or of an instance, calls."""


class Value(NamedTuple):
    """What an expression may stand for: a module, function, class, or an instance of one.
    `of`: what is in it, if it is a container."""

    kind: str
    name: str = ""
    of: frozenset["Value"] = frozenset()


Values = frozenset[Value]
NOTHING: Values = frozenset()


class Defined(NamedTuple):
    """A function, and the name of the class or function around it."""

    module: Module
    node: Function
    around: str


@dataclass
class Scope:
    """Names of a function, or of a module, and the scope around it."""

    module: Module
    around: "Scope | None" = None
    names: defaultdict[str, set[Value]] = field(default_factory=lambda: defaultdict(set))
    owner: str = ""
    """The class whose method it is."""


class Graph:
    """Every function and class by its dotted name; `calls` gives what one calls."""

    def __init__(self, source: Iterable[Module]) -> None:
        self.modules = {module.name: module for module in source}
        self.functions: dict[str, Defined] = {}
        self.classes: dict[str, tuple[Module, ast.ClassDef]] = {}
        self._imports: dict[str, dict[str, str]] = {}
        self._variables: dict[str, tuple[Module, ast.expr | None, ast.expr | None]] = {}
        """Variables of modules and classes, and attributes of `self`: annotation and value."""
        for module in self.modules.values():
            self._imports[module.name] = {}
            for node in ast.walk(module.tree):
                self._imports[module.name] |= imported(node, module.package)
            self._add(module, module.tree, module.name, "")
        self._calls: dict[str, list[str]] = {}
        self._known = (
            ("module", self.modules),
            ("function", self.functions),
            ("class", self.classes),
        )

    # --- what there is ----------------------------------------------------------------------------

    def _add(self, module: Module, node: ast.AST, prefix: str, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                name = f"{prefix}.{child.name}"
                if not _is_overload(child):
                    self.functions[name] = Defined(module, child, around)
                if around in self.classes:
                    self._add_attributes(module, child, around)
                self._add(module, child, name, name)
            elif isinstance(child, ast.ClassDef):
                name = f"{prefix}.{child.name}"
                self.classes[name] = (module, child)
                self._add(module, child, name, name)
            else:
                if around not in self.functions:
                    self._add_variable(module, child, prefix)
                self._add(module, child, prefix, around)

    def _add_variable(self, module: Module, node: ast.AST, prefix: str) -> None:
        for target, note, value in _bound(node):
            if isinstance(target, ast.Name):
                self._variables.setdefault(f"{prefix}.{target.id}", (module, note, value))

    def _add_attributes(self, module: Module, method: Function, owner: str) -> None:
        notes = {one.arg: one.annotation for one in _arguments(method)}
        for node in ast.walk(method):
            for target, note, value in _bound(node):
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    given = notes.get(value.id) if isinstance(value, ast.Name) else None
                    about = (module, note or given, value)
                    self._variables.setdefault(f"{owner}.{target.attr}", about)

    def named(self, dotted: str, seen: frozenset[str] = frozenset()) -> Values:
        """What a dotted name stands for, through modules that only pass it on."""
        for kind, known in self._known:
            if dotted in known:
                return frozenset({Value(kind, dotted)})
        if dotted in self._variables:
            module, note, value = self._variables[dotted]
            scope = Scope(module)
            return self.value_of(value, scope) if note is None else self.instances(note, scope)
        base, _, name = dotted.rpartition(".")
        if base in self.modules and name in self._imports[base] and dotted not in seen:
            return self.named(self._imports[base][name], seen | {dotted})
        return NOTHING

    def member(self, owner: str, name: str, seen: frozenset[str] = frozenset()) -> Values:
        """An attribute of a class, or of its base classes."""
        if owner not in self.classes or owner in seen:
            return NOTHING
        if found := self.named(f"{owner}.{name}"):
            return found
        module, node = self.classes[owner]
        for base in node.bases:
            for one in self.value_of(_origin(base), Scope(module)):
                if found := self.member(one.name, name, seen | {owner}):
                    return found
        return NOTHING

    # --- types ------------------------------------------------------------------------------------

    def instances(self, note: ast.expr | None, scope: Scope) -> Values:
        """What an annotation says."""
        match note:
            case ast.Constant(value=str(text)):
                return self.instances(ast.parse(text, mode="eval").body, scope)
            case ast.BinOp(left=left, right=right):
                return self.instances(left, scope) | self.instances(right, scope)
            case ast.Subscript(value=origin, slice=inner):
                return self._of_generic(origin, inner, scope)
            case ast.Name(id="Self"):
                owner = _owner(scope)
                return frozenset({Value("instance", owner)}) if owner else NOTHING
        return frozenset(
            Value("instance", one.name) if one.kind == "class" else one
            for one in self.value_of(note, scope)
            if one.kind in ("class", "container")
        )

    def _of_generic(self, origin: ast.expr, inner: ast.expr, scope: Scope) -> Values:
        """Of `type[…]` the class, of a container with what is in it, of one of ours itself. In a
        mapping are its values."""
        inside = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        of = self.instances(inside[-1], scope) or frozenset(
            value for one in inside for value in self.instances(one, scope)
        )
        match ast.unparse(origin).rpartition(".")[2]:
            case "type":
                return frozenset(Value("class", one.name) for one in of)
            case "ClassVar" | "Annotated" | "Final":
                return of
            case "Callable":
                return NOTHING
        return self.instances(origin, scope) or _container(of)

    def value_of(self, node: ast.expr | None, scope: Scope) -> Values:  # noqa: C901, PLR0911
        """What an expression may stand for."""
        match node:
            case ast.Name(id=name):
                return self._looked_up(name, scope)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(base, name, scope)
            case ast.Call(func=called, args=args):
                return self._result(called, args, scope)
            case ast.Subscript(value=base):
                values = self.value_of(base, scope)
                classes = {one for one in values if one.kind == "class"}
                return frozenset(classes) or _inside(values)
            case ast.IfExp(body=one, orelse=other):
                return self.value_of(one, scope) | self.value_of(other, scope)
            case ast.BoolOp(values=several):
                return self._all_of(several, scope)
            case ast.Await(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
                return self.value_of(inner, scope)
            case ast.List(elts=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
                return _container(self._all_of(several, scope))
            case ast.Dict(values=several):
                return _container(self._all_of(several, scope))
            case ast.ListComp(elt=inner) | ast.SetComp(elt=inner) | ast.GeneratorExp(elt=inner):
                return _container(self.value_of(inner, scope))
            case ast.BinOp(left=left, right=right):
                return self.value_of(left, scope) | self.value_of(right, scope)
        return NOTHING

    def _all_of(self, several: Iterable[ast.expr], scope: Scope) -> Values:
        return frozenset(value for one in several for value in self.value_of(one, scope))

    def _looked_up(self, name: str, scope: Scope) -> Values:
        around: Scope | None = scope
        while around is not None:
            if name in around.names:
                return frozenset(around.names[name])
            around = around.around
        module = scope.module
        if found := self.named(f"{module.name}.{name}"):
            return found
        return self.named(self._imports[module.name].get(name, ""))

    def _attribute(self, base: ast.expr, name: str, scope: Scope) -> Values:
        if isinstance(base, ast.Call) and ast.unparse(base.func) == "super":
            return self._of_super(name, scope)
        found: Values = NOTHING
        for one in self.value_of(base, scope):
            match one.kind:
                case "module":
                    found |= self.named(f"{one.name}.{name}")
                case "class" | "instance":
                    found |= self.member(one.name, name)
                case "container" if name in ("values", "get", "pop", "setdefault", "items"):
                    found |= {one}
        return frozenset(v for each in found for v in self._as_attribute(each))

    def _as_attribute(self, value: Value) -> Values:
        """Of a property, what it gives."""
        if value.kind == "function" and self.is_property(value.name):
            return self._returned(value.name)
        return frozenset({value})

    def _of_super(self, name: str, scope: Scope) -> Values:
        owner = _owner(scope)
        if owner not in self.classes:
            return NOTHING
        module, node = self.classes[owner]
        bases = (v for base in node.bases for v in self.value_of(_origin(base), Scope(module)))
        return frozenset(v for base in bases for v in self.member(base.name, name))

    def _result(self, called: ast.expr, args: list[ast.expr], scope: Scope) -> Values:
        """What a call gives: of the functions of the standard library that pass on what they are
        given, as of ours."""
        name = ast.unparse(called)
        if name in PASSING and args:
            return self.value_of(args[0], scope)
        if name in CHOOSING:
            return _inside(self._all_of(args, scope))
        if name == "cast" and len(args) > 1:
            return self.instances(args[0], scope)
        values = self.value_of(called, scope)
        return frozenset(result for one in values for result in self._called(one))

    def _called(self, value: Value) -> Values:
        match value.kind:
            case "class":
                return frozenset({Value("instance", value.name)})
            case "function":
                return self._returned(value.name)
            case "instance":
                calls = self.member(value.name, "__call__")
                return frozenset(result for one in calls for result in self._called(one))
            case "container":  # of `values()` and its like
                return frozenset({value})
        return NOTHING

    def _returned(self, name: str) -> Values:
        module, node, around = self.functions[name]
        owner = around if around in self.classes else ""
        if node.returns is None:
            return NOTHING
        scope = Scope(module, owner=owner)
        given = self.instances(node.returns, scope)
        if any("contextmanager" in ast.unparse(one) for one in node.decorator_list):
            return _inside(given)
        return given

    def is_property(self, name: str) -> bool:
        decorators = map(ast.unparse, self.functions[name].node.decorator_list)
        return any(one.rpartition(".")[2] in PROPERTIES for one in decorators)

    # --- calls ------------------------------------------------------------------------------------

    def calls(self, name: str) -> list[str]:
        """The functions of ours that this one calls, or hands on, in the order of its source."""
        if name not in self._calls:
            scope = self._scope_of(name)
            found = (
                called
                for statement in self.functions[name].node.body
                for each in followed(statement)
                for called in self._named_in(each, scope)
                if called != name
            )
            self._calls[name] = list(dict.fromkeys(found))
        return self._calls[name]

    def _scope_of(self, name: str) -> Scope:
        module, node, around = self.functions[name]
        outer = self._scope_of(around) if around in self.functions else Scope(module)
        owner = around if around in self.classes else ""
        scope = Scope(module, outer, owner=owner)
        for inner in node.body:
            if isinstance(inner, Function):
                scope.names[inner.name].add(Value("function", f"{name}.{inner.name}"))
        for each in ast.walk(node):
            for bound, dotted in imported(each, module.package).items():
                scope.names[bound] |= self.named(dotted)
        self._bind_arguments(node, scope)
        for _ in range(2):  # a name may be bound by one that is bound further down
            for each in ast.walk(node):
                self._bind(each, scope)
        return scope

    def _bind_arguments(self, node: Function, scope: Scope) -> None:
        for index, one in enumerate(_arguments(node)):
            if one.annotation is not None:
                scope.names[one.arg] |= self.instances(one.annotation, scope)
            elif index == 0 and scope.owner:
                kind = "class" if one.arg == "cls" else "instance"
                scope.names[one.arg] = {Value(kind, scope.owner)}
            else:
                scope.names[one.arg] = set()

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind_to(node.target, _inside(self.value_of(node.iter, scope)), scope)
            case ast.withitem(context_expr=inner, optional_vars=ast.expr() as target):
                self._bind_to(target, self.value_of(inner, scope), scope)
            case ast.NamedExpr(target=target, value=value):
                self._bind_to(target, self.value_of(value, scope), scope)
            case ast.match_case(pattern=ast.MatchAs(name=str(name), pattern=ast.MatchClass(cls=c))):
                scope.names[name] |= self.instances(c, scope)
            case _:
                for one, note, given in _bound(node):
                    written = self.instances(note, scope)
                    self._bind_to(one, written if note else self.value_of(given, scope), scope)

    def _bind_to(self, target: ast.expr, values: Values, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] |= values
        elif isinstance(target, ast.Tuple | ast.List):
            for inner in target.elts:
                self._bind_to(inner, _inside(values), scope)

    def _named_in(self, node: ast.AST, scope: Scope) -> Iterator[str]:
        """The functions that one node of the tree, without what is inside it, stands for."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            values = self.value_of(node, scope)
            yield from (one.name for one in values if one.kind == "function")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from self._attributes_named(node, scope)
        elif isinstance(node, ast.Call):
            for one in self.value_of(node.func, scope):
                for name in CALLED.get(one.kind, ()):
                    yield from (v.name for v in self.member(one.name, name))
        elif isinstance(node, ast.withitem):
            for one in self.value_of(node.context_expr, scope):
                for name in ("__enter__", "__exit__") if one.kind == "instance" else ():
                    yield from (v.name for v in self.member(one.name, name))

    def _attributes_named(self, node: ast.Attribute, scope: Scope) -> Iterator[str]:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super":
            yield from (v.name for v in self._of_super(node.attr, scope) if v.kind == "function")
            return
        for one in self.value_of(node.value, scope):
            if one.kind == "module":
                found = self.named(f"{one.name}.{node.attr}")
            elif one.kind in ("class", "instance"):
                found = self.member(one.name, node.attr)
            else:
                continue
            yield from (v.name for v in found if v.kind == "function")

    def reached(
        self, starts: Iterable[str], is_left_out: Callable[[str], object] = lambda _: False
    ) -> list[str]:
        """The functions that are called from `starts` on, in the order of a reader who follows each
        call to its end. What `is_left_out` is not followed, nor what has no body."""
        found: dict[str, None] = {}
        waiting = list(reversed(list(starts)))
        while waiting:
            name = waiting.pop()
            if name in found or is_left_out(name) or _is_empty(self.functions[name].node):
                continue
            found[name] = None
            if not name.startswith(INSIDE):
                waiting += reversed(self.calls(name))
        return list(found)


def followed(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those inside it, without branches that no message takes that arrives."""
    if isinstance(node, Function | ast.ClassDef | ast.Raise | ast.ExceptHandler | ast.Import):
        return
    yield node
    if isinstance(node, ast.AnnAssign):
        inner: list[ast.AST] = [node.value] if node.value else []
    elif isinstance(node, ast.If) and _is_aside(node):
        inner = [node.test, *node.orelse]
    else:
        inner = list(ast.iter_child_nodes(node))
    for child in inner:
        yield from followed(child)


def _is_aside(node: ast.If) -> bool:
    test = ast.unparse(node.test)
    return ".recorder" in test or isinstance(node.body[-1], ast.Raise)


def _is_empty(node: Function) -> bool:
    """A method of a protocol, or an abstract one: `...`, or nothing but a docstring."""
    return all(
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in node.body
    )


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """What an assignment binds: target, annotation, value."""
    if isinstance(node, ast.AnnAssign):
        yield node.target, node.annotation, node.value
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        match target, node.value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                yield from ((one, None, value) for one, value in zip(targets, values, strict=True))
            case _:
                yield target, None, node.value


def _arguments(node: Function) -> list[ast.arg]:
    every = node.args
    return [*every.posonlyargs, *every.args, *every.kwonlyargs]


def _is_overload(node: Function) -> bool:
    return any(ast.unparse(one).endswith("overload") for one in node.decorator_list)


def _origin(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _container(of: Values) -> Values:
    return frozenset({Value("container", "", of)}) if of else NOTHING


def _inside(values: Values) -> Values:
    return frozenset(inner for one in values if one.kind == "container" for inner in one.of)


def _owner(scope: Scope) -> str:
    around: Scope | None = scope
    while around is not None and not around.owner:
        around = around.around
    return around.owner if around else ""
