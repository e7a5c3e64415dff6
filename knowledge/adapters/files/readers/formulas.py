"""Write formulas of MathML and Office on one line: `1/2`, `x^2`, `sqrt(2)`."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

_ATOM = re.compile(r"[\w.,\u221e]+|\(.*\)")
_ANNOTATIONS: Final = frozenset({"annotation", "annotation-xml", "ctrlPr", "rPr", "sSupPr", "fPr", "radPr", "mphantom"})


def local_name(element: etree._Element | None) -> str:
    """Return the name of an element without its namespace; nothing for comments or where there is none."""
    tag: object = element.tag if element is not None else None
    return str(tag).rpartition("}")[2].rpartition(":")[2] if isinstance(tag, str) else ""


def formula(element: etree._Element) -> str:
    """Return a formula as text."""
    name = local_name(element)
    if name in _ANNOTATIONS or not name:
        return ""
    children = [each for each in element if local_name(each) and local_name(each) not in _ANNOTATIONS]
    if name in {"mi", "mn", "mo", "mtext", "ms", "t"}:
        return "".join(map(str, element.itertext())).replace("\u2062", "").replace("\u2061", "").strip() or " "
    inner = [formula(each) for each in children]
    return _compose(name, inner, element)


def _compose(name: str, inner: list[str], element: etree._Element) -> str:  # noqa: C901, PLR0911 - one for each element
    match name, inner:
        case (("mfrac" | "f"), [above, below]):
            return f"{_atom(above)}/{_atom(below)}"
        case (("msup" | "sSup"), [base, power]):
            return f"{_atom(base)}^{_atom(power)}"
        case (("msub" | "sSub"), [base, index]):
            return f"{base}_{_atom(index)}"
        case (("msubsup" | "sSubSup"), [base, index, power]):
            return f"{base}_{_atom(index)}^{_atom(power)}"
        case "msqrt", _:
            return f"sqrt({''.join(inner)})"
        case "mroot", [base, degree]:
            return f"root({degree}, {base})"
        case "rad", [*degree, base]:
            return f"root({degree[0]}, {base})" if degree and degree[0].strip() else f"sqrt({base})"
        case (("d" | "mfenced"), _):
            return f"({', '.join(inner)})"
        case (("munder" | "mover" | "munderover"), [base, *rest]):
            return f"{base}_{'^'.join(map(_atom, rest))}" if name != "mover" else base + "".join(rest)
        case (("mtr" | "mr" | "mlabeledtr"), _):
            return " ".join(inner) + "; "
        case "mspace", _:
            return " "
    return ("".join(inner)) if inner else (element.text or "").strip()


def _atom(text: str) -> str:
    text = text.strip()
    return text if _ATOM.fullmatch(text) else f"({text})"
