"""The grammar of selectors, and the explanation of syntax errors."""

from __future__ import annotations

from functools import cache

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

from jdbcstore.errors import InvalidSelector

RESERVED = frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"))
_UNSUPPORTED = {
    "XPATH": "XPATH evaluates the XML of a body, which is not supported; select by properties",
    "XQUERY": "XQUERY evaluates the XML of a body, which is not supported; select by properties",
    "COMMENT": "comments are not supported, unlike in ActiveMQ; remove it",
}

# Comparisons do not chain, and NOT takes a whole comparison, as in SQL.
_GRAMMAR = r"""
?start: disjunction
?disjunction: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: NOT negation                             -> negation
    | test
?test: sum
    | sum COMPARISON sum                            -> comparison
    | sum _IS [NOT] _NULL                           -> is_null
    | sum [NOT] _BETWEEN sum _AND sum               -> between
    | sum [NOT] _LIKE TEXT [_ESCAPE TEXT]           -> like
    | sum [NOT] _IN "(" TEXT ("," TEXT)* ")"        -> membership
?sum: product
    | sum (PLUS | MINUS) product                    -> arithmetic
?product: unary
    | product (TIMES | BY | REST) unary             -> arithmetic
?unary: (MINUS | PLUS) unary                        -> sign
    | atom
?atom: NUMBER                                       -> number
    | TEXT                                          -> quoted
    | (TRUE | FALSE)                                -> boolean
    | NAME                                          -> identifier
    | "(" disjunction ")"
    | COMMENT                                       -> comment

COMPARISON: "=" | "<>" | "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
BY: "/"
COMMENT.1: /--[^\r\n]*[\r\n]|\/\*/
REST: "%"
NUMBER: /0[xX][0-9a-fA-F]+[lL]?|[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?[fFdD]?|\.[0-9]+([eE][+-]?[0-9]+)?[fFdD]?|[0-9]+[eE][+-]?[0-9]+[fFdD]?|[0-9]+[fFdDlL]?/
TEXT: /'([^']|'')*'/
NAME: /[^\W\d$][\w$]*|\$[\w$]*/
%ignore /[ \t\r\n\f]+/
%declare _OR _AND NOT _IS _NULL _BETWEEN _LIKE _ESCAPE _IN TRUE FALSE
"""  # noqa: E501 - a regular expression


def parse(text: str, begin: int) -> Tree[Token]:
    """Parse the selector in ``text`` from ``begin`` on to a syntax tree; positions are those of ``text``.

    :raises InvalidSelector: it is not valid
    """
    try:
        # Blanks in place of the prefix keep the positions.
        return _parser().parse(" " * begin + text[begin:])
    except _CommentFound as error:
        reason, position = _UNSUPPORTED["COMMENT"], error.args[0]
    except UnexpectedToken as error:
        reason, position = _explain(error, text)
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        refusal = f"{text[position]!r} is not allowed in a selector; remove it"
        reason = _CHARACTERS.get(text[position], refusal)
    raise InvalidSelector(text, reason, position=position)


@cache
def _parser() -> Lark:
    callbacks = {"NAME": _keyword, "COMMENT": _refuse}
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", lexer_callbacks=callbacks)


class _CommentFound(Exception):
    """A comment begins at this position."""


def _refuse(token: Token) -> Token:
    raise _CommentFound(token.start_pos)


def _keyword(token: Token) -> Token:
    """Classify a word: a keyword in upper or lower case, or else an identifier."""
    word = token.upper()
    if word in ("TRUE", "FALSE", "NOT") or word in _UNSUPPORTED:
        return token.update(type=word)
    return token.update(type=f"_{word}") if word in RESERVED else token


def _explain(error: UnexpectedToken, text: str) -> tuple[str, int]:
    token, accepted = error.token, error.accepts or error.expected
    if token.type == "$END":
        return f"it ends where {_wanted(accepted)} should follow", len(text)
    position = token.start_pos or 0
    if token.type in _UNSUPPORTED:
        return _UNSUPPORTED[token.type], position
    return _explain_token(token, text[:position].rstrip(), accepted), position


_CHARACTERS = {
    "'": "the string that begins here is not closed; double a quote inside a string: 'it''s'",
    '"': "strings need single quotes: 'red'",
    "!": "write <> for unequal, and NOT for not",
    ";": "a selector is a single condition; remove the ;",
}
"""The explanation of a character that begins no token."""


def _explain_token(token: Token, before: str, accepted: set[str]) -> str:
    if token.type == "LPAR" and before and (before[-1].isalnum() or before[-1] in "_$"):
        return "functions are not supported, not even those of ActiveMQ, such as REGEX"
    if token.startswith("=") and before.endswith("="):
        return "equal is written with a single ="
    word = token.upper()
    if word == "NULL":
        return "NULL is allowed only in IS NULL and IS NOT NULL"
    if word in RESERVED and "NAME" in accepted:
        return f"{word} is a reserved word and cannot be the name of a property"
    shown = token if len(token) <= 40 else f"{token[:40]}..."
    return f"{shown} is found where {_wanted(accepted)} should be"


def _wanted(accepted: set[str]) -> str:
    if "NAME" in accepted:
        return "a property, a number or a string in single quotes"
    if accepted == {"TEXT"}:
        return "a string in single quotes"
    if accepted == {"LPAR"}:
        return "a list in parentheses"
    if "COMMA" in accepted:
        return "a comma or a closing parenthesis"
    if accepted <= {"_NULL", "NOT"}:
        return "NULL or NOT NULL"
    if accepted <= {"_LIKE", "_IN", "_BETWEEN"}:
        return "LIKE, IN or BETWEEN"
    wanted = ["an operator"]
    if "RPAR" in accepted:
        wanted.append("a closing parenthesis")
    if "$END" in accepted:
        wanted.append("the end")
    return " or ".join(wanted)
