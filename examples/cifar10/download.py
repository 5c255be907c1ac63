#!/usr/bin/env python3
"""Downloads one file and shows how far it is.

usage: download.py URL FILE
"""
import sys
import time
import urllib.request

MIB = 1 << 20


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    url, path = sys.argv[1:]
    try:
        with urllib.request.urlopen(url, timeout=30) as source, open(path, "wb") as target:
            total, done, shown = int(source.headers.get("Content-Length") or 0), 0, 0.0
            while block := source.read(MIB):
                target.write(block)
                done += len(block)
                if time.monotonic() - shown > (0.5 if sys.stderr.isatty() else 10):
                    shown = time.monotonic()
                    print(f"  {done // MIB} of {total // MIB} MiB", end="\r" if sys.stderr.isatty() else "\n",
                          file=sys.stderr)
            if total and done != total:
                sys.exit(f"download: {url} ended after {done} of {total} bytes")
    except OSError as error:
        sys.exit(f"download: {url}: {error}")


if __name__ == "__main__":
    main()
