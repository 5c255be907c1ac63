#!/usr/bin/env python3
"""Holds who may include whom; prints every forbidden #include as FILE:LINE and exits 1 if there is one.

usage: tools/dev/check_includes.py [ROOT]      ROOT: the source tree, by default the one this file lies in

Project headers are included as "room/file.h", from the roots include/, src/ and the repository itself. A room is a key
of ROOMS; a file belongs to the longest that it lies in. test/ may include everything.
"""
import os
import re
import sys

EVERYTHING = object()

# Where a file lies -> the rooms (or single headers) it may include, beside itself, hp and base. A room in transport/,
# backend/ or solvers/exchange/ of its own is a concrete transport, backend or exchange: only node, the assembly, names
# those.
ROOMS = {
    "include/hp": [],
    "src/base": [],
    "src/proto": [],
    # Each of these knows those before it, and none of them transport, scheduler or solvers.
    "src/tensor": [],
    "src/backend": ["tensor"],
    "src/backend/cpu": ["tensor", "backend"],
    "src/backend/cuda": ["tensor", "backend"],
    # What is true of a layer, for plans and tables: it knows no backend.
    "src/layers/traits": ["proto"],
    "src/layers": ["proto", "tensor", "backend", "layers/traits"],
    # What runs where and what crosses, without an op: the scheduler's plan reads it, and the net is built from it.
    "src/net/plan": ["proto", "layers/traits"],
    "src/net": ["proto", "tensor", "backend", "layers", "layers/traits", "net/plan"],
    # The library of HDF5 files, for the two below.
    "src/hdf5": [],
    "src/data": ["proto", "tensor", "hdf5"],
    # Formats alone: what reads and writes them links no engine.
    "src/checkpoint": ["proto", "tensor", "hdf5"],
    # Bytes only; GPU memory reaches it as a span.
    "transport": [],
    # How nodes find each other over TCP: what tcp and verbs share, and all that transports know of each other.
    "transport/connect": ["transport"],
    "transport/inproc": ["transport"],
    "transport/tcp": ["transport", "transport/connect"],
    "transport/verbs": ["transport", "transport/connect"],
    # Lies around any of them, and names none.
    "transport/copy": ["transport"],
    # A pure function of the job's files.
    "scheduler/plan": ["proto", "layers/traits", "net/plan"],
    # Chooses a table: what a net costs on hosts of given speeds, by the plan's own rules.
    "scheduler/planner": ["proto", "layers/traits", "net/plan", "scheduler/plan"],
    # These two know the transport through its interface only, and each other not at all.
    "scheduler/pipeline": ["scheduler/plan", "net/plan", "transport"],
    "scheduler/control": ["proto", "scheduler/plan", "transport"],
    # How nodes get a table, before there is a job; over a transport that it is given.
    "src/rendezvous": ["proto", "transport"],
    # The pipelines of all nodes on simulated time; of the exchange it knows what goes round the ring.
    "scheduler/simulator": ["scheduler/plan", "scheduler/planner", "scheduler/pipeline", "net/plan", "transport",
                            "solvers/exchange/direct_plan.h"],
    # backend for what its ops read and write: ParamView.
    "solvers": ["proto", "tensor", "backend"],
    "solvers/exchange": ["solvers", "tensor"],
    "src/model": ["proto", "tensor", "backend", "layers", "net", "net/plan", "scheduler/plan", "solvers"],
    # Records, images and labels on their way to the solvers.
    "src/input": ["proto", "tensor", "layers", "layers/traits", "data", "model", "scheduler/plan"],
    # Copies of the parameters on their way to files and clients.
    "src/snapshot": ["proto", "tensor", "checkpoint", "model", "transport", "scheduler/plan", "scheduler/control",
                            "solvers"],
    # What computes a node's part; of the exchanges it knows the interfaces: one of replicas, two with servers.
    "src/engine": ["proto", "tensor", "backend", "layers", "net", "net/plan", "data", "checkpoint", "model", "transport",
                   "scheduler/plan", "scheduler/pipeline", "scheduler/control", "solvers", "solvers/exchange/exchange.h",
                   "solvers/exchange/server_client.h", "solvers/exchange/parameter_server.h", "input", "snapshot"],
    "src/http": [],
    "src/report": ["proto", "http", "transport", "scheduler/plan", "scheduler/pipeline", "scheduler/control", "solvers"],
    # What opens the host or a GPU for a node: it names the backends, and nobody it gives them to does.
    "src/devices": ["proto", "tensor", "backend", "backend/cpu", "backend/cuda", "transport", "transport/copy",
                    "scheduler/plan", "solvers/exchange"],
    "src/node": EVERYTHING,
    # What hplaunch and nodes leave in the folder of a run.
    "src/run_folder": ["proto", "checkpoint", "scheduler/plan"],
    # What the programs do with nodes and nets; of the transports it names the one within a process.
    "src/commands": ["node", "engine", "input", "data", "model", "net", "net/plan", "layers/traits", "backend", "tensor",
                     "proto", "checkpoint", "solvers", "rendezvous", "run_folder", "scheduler/plan", "scheduler/planner", "scheduler/simulator",
                     "transport/inproc/inproc_network.h"],
    # What hpctl shows of a job, and orders.
    "src/control_client": ["http", "node", "proto", "scheduler/plan"],
    # Programs: what they start, what they print, and hproute, the command line of the table maker.
    # hplaunch: it moves bytes and processes, and knows of a job what its files say.
    "tools/cluster": ["tools", "commands", "checkpoint", "run_folder", "scheduler/plan", "proto"],
    "tools": ["commands", "control_client", "devices", "node", "report", "checkpoint", "scheduler/plan", "proto"],
}

# What a room is called in an #include line, longest first: "src/backend/cpu" is "backend/cpu".
NAMES = sorted((re.sub("^(include|src)/", "", room) for room in ROOMS), key=len, reverse=True)

# Headers of libraries that only these places may include: (headers, places, the rule in words).
LIBRARIES = [
    (r"infiniband/|rdma/", r"transport/verbs/", "libibverbs and librdmacm belong in transport/verbs"),
    (r"cuda|cudnn|cublas|curand|cub/|thrust/", r"src/backend/cuda/|solvers/exchange/nccl",
     "CUDA belongs in src/backend/cuda and solvers/exchange/nccl*"),
    (r"nccl", r"solvers/exchange/nccl", "NCCL belongs in solvers/exchange/nccl*"),
    (r"(oneapi/)?dnnl|cblas|openblas", r"src/backend/cpu/", "oneDNN and OpenBLAS belong in src/backend/cpu"),
    (r"leveldb/|lmdb\.h", r"src/data/", "the databases belong in src/data"),
    (r"(jpeglib|turbojpeg|png)\.h", r"src/data/", "libjpeg and libpng belong in src/data"),
    (r"hiredis/", r"src/rendezvous/redis_store", "hiredis belongs in src/rendezvous/redis_store"),
    (r"hdf5\.h", r"src/hdf5/", "libhdf5 belongs in src/hdf5"),
    (r"opencv2/", r"src/data/", "OpenCV belongs in src/data"),
    (r"boost/asio", r"transport/(connect|tcp|verbs)/|tools/cluster/event_loop",
     "Boost.Asio belongs in transport/connect, tcp and verbs, and in tools/cluster/event_loop"),
    (r"prometheus/", r"src/report/metrics", "prometheus-cpp belongs in src/report/metrics"),
    (r"httplib", r"src/http/", "cpp-httplib belongs in src/http"),
    (r"n?curses", r"src/control_client/watch", "ncurses belongs in src/control_client/watch"),
    (r"openssl/", r"transport/connect/tls|src/base/job_token", "OpenSSL belongs in transport/connect/tls and base/job_token"),
    (r"google/protobuf/|.*\.pb\.h", r"(?!include/)", "include/hp keeps protobuf out of other programs"),
]

SOURCE_ROOTS = ["include", "src", "transport", "scheduler", "solvers", "tools"]
SUFFIXES = (".h", ".cc", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")


def room_of(path):
    """The key of ROOMS that `path`, relative to the root, lies in; None: in none."""
    rooms = [room for room in ROOMS if path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def included_room(header):
    """The room that an #include of the project names; None: not written as "room/file.h"."""
    return next((name for name in NAMES if header.startswith(name + "/")), None)


def allowed_rooms(room):
    """What files of `room` may include beside their own room, as written in an #include; None: everything."""
    if ROOMS[room] is EVERYTHING:
        return None
    return ["hp"] if room == "include/hp" else ["hp", "base", *ROOMS[room]]


def check_project_include(room, header):
    """What is wrong with `#include "header"` of the project in a file of `room`; None: nothing."""
    target = included_room(header)
    if target is None:
        return f'"{header}" is a header of the project: write it as "room/file.h"'
    allowed = allowed_rooms(room)
    if allowed is None or target in allowed or header in allowed or target == re.sub("^(include|src)/", "", room):
        return None
    return f'{room} may not include "{header}"; beside itself it may include: {", ".join(allowed)}'


def lies_in_project(root, path, header):
    """Whether `header` is a file of the tree, looked up from the include roots and beside `path`."""
    bases = ["", "src", "include", os.path.dirname(path)]
    return any(os.path.isfile(os.path.join(root, base, header)) for base in bases)


def check_library(path, header):
    """What is wrong with the file `path` including a library's header; None: nothing."""
    for headers, places, rule in LIBRARIES:
        if re.match(headers, header) and not re.match(places, path):
            return f"<{header}> may not be included here: {rule}"
    return None


def without_comments(text):
    """`text` with its comments blanked out, its lines kept."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/',
                  lambda match: match.group() if match.group().startswith('"') else blank(match), text, flags=re.S)


def source_files(root):
    for top in SOURCE_ROOTS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def check_file(root, path):
    """Yields (line number, what is wrong) for one file, and (line number, None) for each getenv."""
    room = room_of(path)
    if room is None:
        yield 1, "is in no room that tools/dev/check_includes.py lists"
        return
    with open(os.path.join(root, path), encoding="utf-8") as file:
        lines = without_comments(file.read()).split("\n")
    for number, line in enumerate(lines, 1):
        if GETENV.search(line):
            yield number, None
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        wrong = check_library(path, header)
        if not wrong and (included_room(header) and quote == '"' or lies_in_project(root, path, header)):
            wrong = check_project_include(room, header)
        if not wrong and quote == "<" and lies_in_project(root, path, header):
            wrong = f'<{header}> is a header of the project: write "{header}"'
        if wrong:
            yield number, wrong


def check_rules():
    """Circles among the rooms' rules, as lines to print: the rooms are floors, and every include goes down."""
    rooms = {re.sub("^(include|src)/", "", room): allowed for room, allowed in ROOMS.items()}
    below = {}

    def follow(name, path):
        if name in path:
            return [f"the rules are circular: {' -> '.join([*path[path.index(name):], name])}"]
        if name in below or rooms.get(name, EVERYTHING) is EVERYTHING:
            return []
        faults = [fault for allowed in rooms[name] for fault in follow(allowed, [*path, name])]
        below[name] = True
        return faults

    return [fault for name in rooms for fault in follow(name, [])]


def check_tree(root):
    """All faults of the tree, as lines to print."""
    faults, getenv = check_rules(), {}
    for path in source_files(root):
        for number, wrong in check_file(root, path):
            if wrong is None:
                getenv.setdefault(path, number)
            else:
                faults.append(f"{path}:{number}: {wrong}")
    if len(getenv) > 1:
        places = ", ".join(f"{path}:{number}" for path, number in sorted(getenv.items()))
        faults.append(f"{places}: getenv in more than one file")
    return faults


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(here))
    files = sum(1 for _ in source_files(root))
    if files == 0:
        sys.exit(f"check_includes: no source files under {root}")
    faults = check_tree(root)
    if faults:
        print("\n".join(faults))
        sys.exit(1)
    print(f"check_includes: {files} files, no violations")


if __name__ == "__main__":
    main()
