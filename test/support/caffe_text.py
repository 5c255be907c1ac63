"""Reads prototxt files into dictionaries: no protobuf library, no schema file.

Every field is a list, whatever it is in the schema: {"base_lr": [0.01], "layer": [{...}, {...}]}. `one` takes a single
value out, with Caffe's default where there is none.
"""
import re

TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<mark>[{}:;,\[\]<>])"""
                   r"""|(?P<word>[A-Za-z_][\w.]*)|(?P<number>[-+]?[\d.][\w.+-]*)""")


def tokens(text):
    at, found = 0, []
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {text[at:at + 20]!r}")
        if match.lastgroup is not None:
            found.append((match.lastgroup, match.group()))
        at = match.end()
    return found


def number(text):
    try:
        return int(text, 0)
    except ValueError:
        return float(text.rstrip("fF"))


class Parser:
    def __init__(self, text):
        self.tokens, self.at = tokens(text), 0

    def peek(self):
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def value(self):
        kind, text = self.next()
        if kind == "string":
            return text[1:-1]
        if kind == "number":
            return number(text)
        return {"true": True, "false": False}.get(text, text)

    def values(self):
        if self.peek() != "[":
            return [self.value()]
        self.next()
        found = []
        while self.peek() != "]":
            found.append(self.value())
            if self.peek() == ",":
                self.next()
        self.next()
        return found

    def message(self, end=None):
        found = {}
        while self.peek() != end:
            name = self.next()[1]
            if self.peek() == ":":
                self.next()
            if self.peek() in ("{", "<"):
                closing = {"{": "}", "<": ">"}[self.next()[1]]
                values = [self.message(closing)]
                self.next()
            else:
                values = self.values()
            found.setdefault(name, []).extend(values)
            if self.peek() in (";", ","):
                self.next()
        return found


def read_prototxt(path):
    with open(path) as file:
        return Parser(file.read()).message()


def one(message, name, default=None):
    """The value of an optional field; the last one counts, as in protobuf."""
    return message[name][-1] if name in message else default
