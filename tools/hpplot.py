#!/usr/bin/python3
"""Draws the curves of trainings: loss, accuracy and learning rate, over iterations and over time.

  hpplot [FLAGS] OUT RUN...

OUT is the picture to write, NAME.svg, NAME.png or NAME.pdf. A RUN is a table of hpnode --csv, or the log of the
node that logs the losses (Caffe's too), with NAME= in front where the legend should have another name than the file's.
Accuracies are a test's outputs that are no losses and stay between 0 and 1; a table has those of the first test net.
What a run that was resumed wrote again replaces what stood there. Needs matplotlib (Debian: python3-matplotlib).

Example:
  hpplot digits.svg plain=run1/curves.csv hybrid=run2/fc0.log

Flags:
  --what  curves to draw, with commas: loss, accuracy, rate (default "loss,accuracy,rate")
  --over  what they are drawn over, with commas: iterations, time (default "iterations,time")
  --title  a line above the picture (default "")
  --log_scale  draw losses on a logarithmic scale (default false)
"""
import csv
import datetime
import os
import re
import sys

LABELS = {"loss": "loss", "accuracy": "accuracy", "rate": "learning rate", "iterations": "iterations", "time": "hours"}
KINDS = (".svg", ".png", ".pdf")
LARGEST = 1e100  # of a value; the axes' arithmetic overflows long before floats do
MOST_DIGITS = 15  # of an iteration: a float has it exactly
# As hpnode and Caffe log: "I0131 23:59:59.123456 4711 solver.cpp:218] Iteration 100 (8.5 iter/s, ...), loss = 0.5".
LINE = re.compile(r"[IWEF](?:\d{4})?(\d{2})(\d{2}) (\d\d):(\d\d):(\d\d\.\d+) +\d+ \S+\] (.*)", re.ASCII)
ITERATION = re.compile(r"Iteration (\d+)\b", re.ASCII)
LOSS = re.compile(r"Iteration \d+\b.*\bloss = (\S+)", re.ASCII)
RATE = re.compile(r"Iteration \d+, lr = (\S+)", re.ASCII)
TEST_NET = re.compile(r"Iteration \d+, Testing net \(#(\d+)\)", re.ASCII)
TEST = re.compile(r"Test net output #\d+: (\S+) = (\S+)(.*)")


class Refused(Exception):
    """Bad input, in words for the user."""


class Run:
    """Curves {name: [(iteration, hours, value), ...]}; the accuracies of several outputs, or test nets, are curves of their
    own."""

    def __init__(self, name):
        self.name, self.curves = name, {}

    def add(self, at, curve, iteration, hours, value):
        """`at`: where it was read, for messages."""
        for quantity, number_read in ((LABELS[curve.split()[0]], value), ("time in hours", hours)):
            if LARGEST < abs(number_read) < float("inf"):
                raise Refused("%s: %s is %g; expected at most %g in size" % (at, quantity, number_read, LARGEST))
        points = self.curves.setdefault(curve, [])
        while points and points[-1][0] >= iteration:  # a run that was resumed
            points.pop()
        points.append((iteration, hours, value))


def printable(text):
    """What a picture and a terminal can show of it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def drawn(text):
    """For matplotlib, where a "$" would begin mathematics."""
    return printable(text).replace("$", r"\$")


def whole(text, at):
    """An iteration."""
    if len(text) > MOST_DIGITS:
        raise Refused("%s: iteration %s... has %d digits; expected at most %d" %
                      (at, printable(text[:20]), len(text), MOST_DIGITS))
    return int(text)


def read_table(run, path, lines):
    names = {"loss": "loss", "learning_rate": "rate", "test_accuracy": "accuracy", "accuracy": "accuracy in training"}
    reader = csv.DictReader(lines)
    try:
        for row in reader:
            at = "%s:%d" % (path, reader.line_num)
            iteration, hours = whole(row["cumulative_batch_count"], at), float(row["cumulative_time_spent"]) / 3600
            if row["loss"]:  # a display: its own iteration is among those counted; a test stands behind them
                iteration -= 1
            for column, curve in names.items():
                if row[column]:
                    run.add(at, curve, iteration, hours, float(row[column]))
    except (KeyError, TypeError, ValueError, csv.Error):
        raise Refused("%s:%d: not a row of a table that hpnode --csv writes" % (path, reader.line_num)) from None


class Times:
    """Hours since a log's first line, whose prefixes have no year."""

    def __init__(self):
        self.first = self.last = None

    def hours(self, month, day, hour, minute, second):
        at = datetime.datetime(2000, int(month), int(day), int(hour), int(minute)) + \
            datetime.timedelta(seconds=float(second))
        while self.last is not None and at < self.last - datetime.timedelta(days=180):
            at += datetime.timedelta(days=366)  # 2000 was a leap year
        self.first = self.first or at
        self.last = at
        return (at - self.first).total_seconds() / 3600


def read_log(run, path, lines):
    times, iteration, net = Times(), None, 0
    for line_number, line in enumerate(lines, 1):
        at = "%s:%d" % (path, line_number)
        found = LINE.match(line)
        if not found:
            continue
        try:
            hours = times.hours(*found.groups()[:5])
        except (ValueError, OverflowError):  # no date
            continue
        text = found.group(6)
        stands = ITERATION.match(text)
        iteration = whole(stands.group(1), at) if stands else iteration
        tests = TEST_NET.match(text)
        net = whole(tests.group(1), at) if tests else net
        for curve, pattern in (("loss", LOSS), ("rate", RATE)):
            value = pattern.match(text)
            if value:
                run.add(at, curve, iteration, hours, number(value.group(1)))
        output = TEST.search(text)
        if output and iteration is not None and "loss)" not in output.group(3):
            name, value = output.groups()[:2]
            run.add(at, accuracy_curve(name, net), iteration, hours, number(value))
    for curve in [name for name in run.curves if name.split()[0] == "accuracy"]:
        if any(value < 0 or value > 1 for _, _, value in run.curves[curve]):  # a distance, say
            print("hpplot: %s: %s is not always between 0 and 1, and is left out" % (path, printable(curve)),
                  file=sys.stderr)
            del run.curves[curve]


def accuracy_curve(output, net):
    """The name of the curve of an output of test net `net`."""
    curve = "accuracy" if output == "accuracy" else "accuracy " + output
    return curve if net == 0 else "%s net #%d" % (curve, net)


def number(text):
    try:
        return float(text.rstrip(",;"))
    except ValueError:
        return float("nan")


def read_run(argument):
    """A RUN of the command line."""
    name, equals, path = argument.partition("=")
    if not equals or os.path.exists(argument):
        name, path = os.path.basename(argument), argument
    run = Run(name)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise Refused("%s: %s" % (path, error.strerror)) from None
    if lines[0].startswith("time_spent,"):
        read_table(run, path, lines)
    else:
        read_log(run, path, lines)
    if not run.curves:
        raise Refused('%s: no curves; expected a table of hpnode --csv, or a log with lines "Iteration ..., loss = ..."'
                      % path)
    return run


def draw(out, runs, flags):
    """A row of pictures for each of --what, a column for each of --over."""
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Refused("needs matplotlib (Debian: python3-matplotlib)") from None
    # Text as text, and equal files of equal runs.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hpplot"})
    from matplotlib import figure  # pylint: disable=import-outside-toplevel
    what, over = flags["what"], flags["over"]
    picture = figure.Figure(figsize=(6.4 * len(over), 3.6 * len(what)), layout="constrained")
    all_axes = picture.subplots(len(what), len(over), squeeze=False)
    for row, quantity in zip(all_axes, what):
        for axes, unit in zip(row, over):
            draw_axes(axes, runs, quantity, unit)
            if quantity == "loss" and flags["log_scale"]:
                axes.set_yscale("log")
    if flags["title"]:
        picture.suptitle(drawn(flags["title"]))
    metadata = {} if out.endswith(".png") else {"Date" if out.endswith(".svg") else "CreationDate": None}
    try:
        picture.savefig(out, metadata=metadata)
    except OSError as error:
        raise Refused("%s: %s" % (out, error.strerror)) from None


def draw_axes(axes, runs, quantity, unit):
    labels = []
    for place, run in enumerate(runs):
        for curve, points in run.curves.items():
            if curve.split()[0] != quantity:
                continue
            labels.append(run.name if curve == quantity else "%s (%s)" % (run.name, curve[len(quantity):].strip()))
            line, = axes.plot([point[1 if unit == "time" else 0] for point in points], [point[2] for point in points],
                              color="C%d" % (place % 10), marker="." if len(points) < 3 else None,
                              linestyle="-" if curve == quantity else "--")
            line.set_gid(printable("%s over %s of %s" % (curve, unit, run.name)))
    axes.set_xlabel(LABELS[unit])
    axes.set_ylabel(LABELS[quantity])
    axes.grid(True, alpha=0.3)
    if axes.lines:
        # A legend leaves out labels that begin with "_", unless they are given to its texts.
        for text, label in zip(axes.legend(axes.lines, map(str, range(len(labels)))).get_texts(), labels):
            text.set_text(drawn(label))
    else:
        axes.text(0.5, 0.5, "no run has this curve", ha="center", transform=axes.transAxes)


def parse(arguments):
    """(flags, OUT, RUNs) of a command line."""
    flags = {"what": "loss,accuracy,rate", "over": "iterations,time", "title": "", "log_scale": False}
    rest = []
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-"):
            rest.append(argument)
        elif name == "log_scale" and value in ("", "true", "false"):
            flags[name] = value != "false"
        elif name in ("what", "over", "title") and equals:
            flags[name] = value
        else:
            raise Refused("%s: unknown flag, or one without its value (hpplot --help)" % argument)
    for name, known in (("what", ("loss", "accuracy", "rate")), ("over", ("iterations", "time"))):
        flags[name] = flags[name].split(",")
        for word in flags[name]:
            if word not in known:
                raise Refused('--%s: "%s" is unknown; expected %s' % (name, word, ", ".join(known)))
    if len(rest) < 2:
        raise Refused("expected OUT and at least one RUN (hpplot --help)")
    if os.path.splitext(rest[0])[1] not in KINDS:
        raise Refused("%s: expected the picture's name, NAME.svg, NAME.png or NAME.pdf" % rest[0])
    return flags, rest[0], rest[1:]


def main():
    if {"--help", "-h", "-help"} & set(sys.argv[1:]):
        print(__doc__, end="")
        return
    try:
        flags, out, arguments = parse(sys.argv[1:])
        draw(out, [read_run(argument) for argument in arguments], flags)
    except Refused as refused:
        print("hpplot: %s" % refused, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
